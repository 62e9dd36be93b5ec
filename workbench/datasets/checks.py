"""What a training run takes as its data set, checked before anything runs."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.datasets.dataset import Dataset


def check_dataset(
    given: object, model: str = "the model", input_shape: Sequence[int] | None = None
) -> Dataset:
    """Return what was given as `dataset` if it is one whose images the model takes.

    Parameters
    ----------
    given
        What the user gave.
    model
        Its name, for the error.
    input_shape
        Channels, height and width that the model takes; None where that is not known.

    Raises
    ------
    ValueError
        A name or anything else that is no `Dataset`, or images of another shape.
    """
    fitted = "" if input_shape is None else f".fitted({tuple(input_shape)})"
    if isinstance(given, str):
        raise ValueError(
            f"dataset is the name {given!r}; give datasets.load({given!r}){fitted}, of images as "
            f"{model} takes them"
        )
    if not isinstance(given, Dataset):
        what = "None" if given is None else f"of type {type(given).__name__}"
        raise ValueError(
            f"dataset is {what}; give a datasets.Dataset, such as datasets.load('digits'){fitted}"
        )
    if input_shape is not None and given.input_shape != tuple(input_shape):
        raise ValueError(
            f"{given.name} has images {given.input_shape}, {model} takes {tuple(input_shape)}; "
            f"use dataset{fitted}"
        )
    return given
