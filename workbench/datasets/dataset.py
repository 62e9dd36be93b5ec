"""Samples and their labels, for training and for testing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workbench.datasets.images import fit_images
from workbench.profiles.inputs import Input
from workbench.utils.checks import UserError, check_whole

Labels = NDArray[np.int64]
Shape = tuple[int, ...]

IGNORED = -100
"""Label of a position that no loss and no metric counts, as in PyTorch."""

LIMIT = 10
"""Purpose of a stream of random numbers; see `workbench.training.repeatable`."""


class DatasetError(UserError):
    """A data set that is missing, cannot be fetched, or has another content."""


@dataclass(frozen=True, eq=False)
class NamedArrays:
    """Several inputs of a model, by the names that its forward has for them.

    >>> import numpy as np
    >>> tokens = np.zeros((8, 16), np.int64)
    >>> inputs = NamedArrays({"input_ids": tokens, "attention_mask": np.ones((8, 16), bool)})
    >>> len(inputs[:3])
    3

    A row of each array is a sample; `len` counts them, slices and arrays of indices choose some.
    """

    arrays: Mapping[str, Any]

    def __post_init__(self) -> None:
        named = isinstance(self.arrays, Mapping) and all(isinstance(n, str) for n in self.arrays)
        rows = {np.shape(array)[:1] for array in self.arrays.values()} if named else {()}
        if len(rows) != 1 or () in rows:
            raise UserError(
                "NamedArrays takes at least one array, of as many rows each, by the names that the "
                "model's forward has for them, as in NamedArrays({'input_ids': ids, "
                "'attention_mask': mask})"
            )

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def __getitem__(self, rows: Any) -> NamedArrays:
        if (not isinstance(rows, slice) and np.ndim(rows) != 1) or isinstance(rows, tuple):
            raise UserError(
                f"inputs by name have no sample {rows!r}; give a slice, inputs[3:4], or an array "
                "of indices; an input is inputs.arrays['name']"
            )
        return NamedArrays({name: array[rows] for name, array in self.arrays.items()})


Samples = NDArray[Any] | NamedArrays


@dataclass(frozen=True, eq=False)
class Dataset:
    """A named set of labelled samples; its arrays are read-only.

    Attributes
    ----------
    name
        What it was loaded by.
    x_train, x_test
        A row for each sample, of numbers of any type and shape: float32 images, N x C x H x W;
        int64 tokens, N x T; or several `NamedArrays` by name. Floats are finite.
    y_train, y_test
        A row for each sample: int64 labels from 0 to ``len(classes) - 1``, one a sample (N) or one
        a position (N x T, `IGNORED` where none counts); or floats, N x ..., for a regression.
    classes
        What each label means; the vocabulary where labels are tokens, and none for a regression.
    entropy
        The least mean cross entropy that any model has on samples from the same source, in nats a
        label; None where it is not known.
    """

    name: str
    x_train: Any
    y_train: NDArray[Any]
    x_test: Any
    y_test: NDArray[Any]
    classes: tuple[str, ...] = ()
    entropy: float | None = None

    def __post_init__(self) -> None:
        for part in ("train", "test"):
            x, y = getattr(self, f"x_{part}"), getattr(self, f"y_{part}")
            for name, array in _named(x):
                _check_array(f"{self.name}: x_{part}{f'[{name!r}]' if name else ''}", array)
            _check_array(f"{self.name}: y_{part}", y, len(x))
            self._check_labels(f"{self.name}: y_{part}", y)
        for axis in ("x", "y"):
            train, test = (_inputs(getattr(self, f"{axis}_{part}")) for part in ("train", "test"))
            if train != test:
                raise DatasetError(
                    f"{self.name}: {_described(train)} in {axis}_train, but {_described(test)} in "
                    f"{axis}_test"
                )
        for field in ("x_train", "y_train", "x_test", "y_test"):
            object.__setattr__(self, field, _read_only(getattr(self, field)))

    def __repr__(self) -> str:
        """Return its name and size, since its arrays are long."""
        samples = f"{len(self.y_train)} + {len(self.y_test)} samples of {_described(self.inputs)}"
        labels = f", {len(self.classes)} classes" if self.classes else ""
        return f"Dataset({self.name!r}, {samples}{labels})"

    def _check_labels(self, called: str, y: NDArray[Any]) -> None:
        count = len(self.classes)
        if y.dtype != np.int64 and (count or y.dtype.kind != "f"):
            raise DatasetError(
                f"{called} is {y.dtype}; labels of classes are int64, and targets of a regression "
                "floats, without classes"
            )
        if y.dtype == np.int64:
            counted = y if y.ndim == 1 else y[y != IGNORED]
            if not counted.size:
                raise DatasetError(f"{called} has no label that counts: all are {IGNORED}")
            if count and not 0 <= counted.min() <= counted.max() < count:
                raise DatasetError(
                    f"{called} has labels from {counted.min()} to {counted.max()}, "
                    f"but there are {count} classes, numbered from 0"
                )

    @property
    def inputs(self) -> tuple[Input, ...]:
        """What a model is given for one sample; `profile_model` and `flatten` take it."""
        return _inputs(self.x_train)

    @property
    def input_shape(self) -> Shape:
        """Of one sample, if it has one input: channels, height, width of an image."""
        if len(self.inputs) > 1:
            raise DatasetError(f"{self.name} has several inputs, {_described(self.inputs)}")
        return self.inputs[0].shape

    def subset(self, train: ArrayLike | None = None, test: ArrayLike | None = None) -> Dataset:
        """Keep the samples of these indices, in their order; all where None."""
        kept: dict[str, Any] = {}
        for part, wanted in (("train", train), ("test", test)):
            if wanted is not None:
                x, y = getattr(self, f"x_{part}"), getattr(self, f"y_{part}")
                at = _indices(f"{self.name}: {part}", wanted, len(y))
                kept |= {f"x_{part}": x[at], f"y_{part}": y[at]}
        return replace(self, **kept)

    def limit(self, train: int | None = None, test: int | None = None, *, seed: int = 0) -> Dataset:
        """Draw samples at random, none twice; all where None or where there are no more.

        The same seed draws the same samples; a smaller number draws the first of a larger.
        """
        check_whole("seed", seed, 0)
        kept: dict[str, ArrayLike] = {}
        for part, (name, wanted) in enumerate((("train", train), ("test", test))):
            count = len(getattr(self, f"y_{name}"))
            if wanted is not None and check_whole(name, wanted, 1) < count:
                rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(LIMIT, part)))
                kept[name] = rng.permutation(count)[:wanted]
        return self.subset(**kept)

    def standardised(self) -> Dataset:
        """Shift and scale all numbers alike, so that those to train on have mean 0, variance 1.

        Images of one colour stay as they are but for the shift.
        """
        self._check_floats()
        mean, deviation = self.x_train.mean(dtype=np.float64), self.x_train.std(dtype=np.float64)
        scale = 1.0 / deviation if deviation > 0 else 1.0
        x_train, x_test = (
            ((x - mean) * scale).astype(np.float32) for x in (self.x_train, self.x_test)
        )
        return replace(self, x_train=x_train, x_test=x_test)

    def fitted(self, input_shape: Sequence[int]) -> Dataset:
        """Bring images to a model's input shape; see `fit_images` for how."""
        self._check_floats(axes=4)
        try:
            x_train, x_test = (fit_images(x, input_shape) for x in (self.x_train, self.x_test))
        except ValueError as error:
            raise DatasetError(f"{self.name}: {error}") from error
        return replace(self, x_train=x_train, x_test=x_test)

    def _check_floats(self, axes: int | None = None) -> None:
        one, *others = self.inputs
        floats = one.dtype.startswith("float") and not others
        if not floats or axes not in (None, len(one.shape) + 1):
            wanted = "are standardised" if axes is None else "of three axes, images, are fitted"
            raise DatasetError(
                f"{self.name} has {_described(self.inputs)} a sample; only floats {wanted}"
            )


def _check_array(called: str, array: Any, rows: int | None = None) -> None:
    """Refuse anything but an array of numbers that PyTorch has, with a row for each sample."""
    kind = array.dtype.kind if isinstance(array, np.ndarray) else ""
    if (
        kind not in tuple("fiub")
        or not array.ndim
        or not array.size
        or rows not in (None, len(array))
    ):
        what = f"{array.dtype} of shape {array.shape}" if kind else type(array).__name__
        samples = "at least one sample" if rows is None else f"the {rows} samples"
        raise DatasetError(
            f"{called} is {what}; it must be an array of numbers, a row for each of {samples}"
        )
    if array.dtype.itemsize > 8 or not array.dtype.isnative:
        raise DatasetError(
            f"{called} is {array.dtype}, which PyTorch does not have; convert it, as by "
            f".astype('{'float64' if kind == 'f' else 'int64'}')"
        )
    if kind == "f" and not (np.isfinite(array.min()) and np.isfinite(array.max())):
        raise DatasetError(f"{called} holds NaN or infinite numbers")


def _named(x: Samples) -> Iterator[tuple[str, Any]]:
    yield from x.arrays.items() if isinstance(x, NamedArrays) else [("", x)]


def arrays_of(x: Any) -> list[Any]:
    """Arrays, or tensors, of each input that samples have."""
    return [array for _, array in _named(x)]


def _read_only(x: Any) -> Any:
    """Views that cannot be written to; the caller's own arrays stay as they are."""
    if isinstance(x, NamedArrays):
        return NamedArrays({name: _read_only(array) for name, array in x.arrays.items()})
    view = x.view()
    view.flags.writeable = False
    return view


def _inputs(x: Samples) -> tuple[Input, ...]:
    return tuple(Input(array.shape[1:], str(array.dtype), name) for name, array in _named(x))


def _described(inputs: Sequence[Input]) -> str:
    return ", ".join(map(str, inputs))


def _indices(part: str, wanted: ArrayLike, count: int) -> Labels:
    indices = np.asarray(wanted)
    if indices.ndim != 1 or not indices.size or indices.dtype.kind not in "iu":
        raise DatasetError(f"{part}: a subset is a list of at least one whole number")
    if indices.min() < 0 or indices.max() >= count:
        raise DatasetError(
            f"{part} has samples 0 to {count - 1}, not {indices.min()} to {indices.max()}"
        )
    return indices.astype(np.int64)


def check_dataset(
    dataset: object,
    model: str = "the model",
    input_shape: Sequence[int] | None = None,
    input_dtype: str = "float32",
) -> Dataset:
    """Return `dataset` if it is a `Dataset` whose samples the model takes.

    `model` is its name, for the error; shape and type of its input are given if known.
    """
    wanted = None if input_shape is None else Input(tuple(input_shape), input_dtype)
    images = wanted is not None and len(wanted.shape) == 3
    fitted = f".fitted({wanted.shape})" if wanted is not None and images else ""
    if not isinstance(dataset, Dataset):
        if isinstance(dataset, str):
            raise UserError(
                f"dataset is the name {dataset!r}; give datasets.load({dataset!r}){fitted}"
            )
        what = "None" if dataset is None else f"of type {type(dataset).__name__}"
        raise UserError(
            f"dataset is {what}; give a datasets.Dataset, such as datasets.load('digits'){fitted}"
        )
    if wanted is None or dataset.inputs == (wanted,):
        return dataset
    had = dataset.inputs[0]
    if images and len(dataset.inputs) == 1 and (len(had.shape), had.dtype) == (3, input_dtype):
        raise UserError(
            f"{dataset.name} has images {had.shape}, {model} takes {wanted.shape}; "
            f"use dataset{fitted}"
        )
    tokens = ""
    if wanted.dtype == "int64" and len(wanted.shape) == 1:
        tokens = f", as datasets.markov.load(length={wanted.shape[0]}) has"
    raise UserError(
        f"{dataset.name} has {_described(dataset.inputs)} a sample, {model} takes {wanted}{tokens}"
    )
