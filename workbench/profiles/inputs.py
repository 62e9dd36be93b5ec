"""Inputs of a module: the shape of each for one sample, its type, and its name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from workbench.utils.checks import UserError, choose, whole
from workbench.zoo import MODELS

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Input:
    """One input of a module, or one target of a loss.

    Attributes
    ----------
    shape
        Of one sample, without the batch; ``()`` for a number.
    dtype
        PyTorch's name of its type: ``"int64"`` for tokens.
    name
        Of forward's argument that it is; empty for inputs in their order.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    name: str = ""

    def __post_init__(self) -> None:
        sizes = self.shape if isinstance(self.shape, tuple) else [0]
        if any((whole(size) or 0) < 1 for size in sizes):
            raise UserError(f"the shape {self.shape} is not made of positive whole numbers")
        object.__setattr__(self, "shape", tuple(map(int, sizes)))
        if not isinstance(self.dtype, str) or not self.dtype.isidentifier():
            raise UserError(f"unknown input_dtype {self.dtype!r}; give PyTorch's name: 'float32'")
        if not isinstance(self.name, str) or not (self.name.isidentifier() or not self.name):
            raise UserError(f"an input is called {self.name!r}; give the name that forward has")

    def __str__(self) -> str:
        return f"{self.name}{'=' * bool(self.name)}{self.dtype}[{','.join(map(str, self.shape))}]"


Inputs = tuple[Input, ...]

InputShape = (
    str
    | Sequence[int]
    | Sequence[Sequence[int]]
    | Sequence[str]
    | Sequence[Input]
    | Mapping[str, str]
    | Mapping[str, Sequence[int]]
)
"""All that `inputs_of` reads."""

_EXAMPLE = '(3, 224, 224), "int64[128]" or "input_ids=int64[128],attention_mask=int64[128]"'
_TYPED = re.compile(r"\s*(?:([A-Za-z_]\w*)\s*=\s*)?([a-z]\w*)?\s*\[([^\[\]]*)\]\s*(,|$)")


def inputs_of(
    model: str | torch.nn.Module, input_shape: InputShape | None, input_dtype: str | None = None
) -> Inputs:
    """Read what a model takes; the zoo knows it of its models.

    Parameters
    ----------
    model
        A name in the zoo, or a module.
    input_shape
        Of one sample, without the batch: ``(3, 224, 224)``; with its type: ``"int64[128]"``; of
        several inputs in their order: ``[(3, 8), (5,)]``; by name:
        ``{"input_ids": "int64[128]", "attention_mask": "int64[128]"}`` or the same in one text,
        ``"input_ids=int64[128],attention_mask=int64[128]"``.
    input_dtype
        Of all that are given by their shape alone; by default float32, and a zoo's model's own.
    """
    if isinstance(model, str):
        known = choose("model", model, MODELS)
        input_shape = known.input_shape if input_shape is None else input_shape
        input_dtype = input_dtype or known.input_dtype
    elif input_shape is None:
        raise UserError(
            f"input_shape is missing: {type(model).__name__} does not tell the shape of its "
            f"input. Give that of one sample, without the batch: {_EXAMPLE}"
        )
    return read_inputs("input_shape", input_shape, input_dtype or "float32")


def read_inputs(name: str, value: InputShape, dtype: str = "float32") -> Inputs:
    """Read inputs, or targets, as `inputs_of` does; errors call them `name`."""
    inputs = _read(name, value, dtype)
    named = [item.name for item in inputs if item.name]
    if len(named) not in (0, len(inputs)) or len(set(named)) < len(named):
        raise UserError(f"{name} {value}: give every input a name of its own, or none")
    return inputs


def _read(name: str, value: InputShape, dtype: str) -> Inputs:
    if isinstance(value, str):
        return _read_text(name, value, dtype)
    if not isinstance(value, Sequence | Mapping) or value in ([], {}):
        raise UserError(f"{name} is {value!r}; give {_EXAMPLE}")
    if isinstance(value, Mapping):
        inputs = {key: _read(name, shape, dtype) for key, shape in value.items()}
        if any(len(several) != 1 or several[0].name for several in inputs.values()):
            raise UserError(f"{name} {value}: give one shape for each name")
        return tuple(replace(item, name=str(key)) for key, (item,) in inputs.items())
    if any(isinstance(part, Sequence | Input) for part in value):
        several: list[Input] = []
        for part in value:
            several += (part,) if isinstance(part, Input) else _read(name, part, dtype)  # type: ignore[arg-type]
        return tuple(several)
    return (Input(tuple(value), dtype),)  # type: ignore[arg-type]


def _read_text(name: str, text: str, dtype: str) -> Inputs:
    if "[" not in text and text.strip():
        return (Input(_sizes(name, text, text), dtype),)
    inputs: list[Input] = []
    at = 0
    while at < len(text) or not inputs:
        match = _TYPED.match(text, at)
        if match is None:
            raise UserError(f"{name} {text}: give a type and a shape, as in {_EXAMPLE}")
        inputs.append(Input(_sizes(name, text, match[3]), match[2] or dtype, match[1] or ""))
        at = match.end()
    return tuple(inputs)


def _sizes(name: str, text: str, sizes: str) -> tuple[int, ...]:
    parts = [part.strip() for part in re.split(r"[,x×]", sizes)] if sizes.strip() else []
    if not all(part.isdecimal() and int(part) for part in parts):
        raise UserError(f"{name} {text}: give a type and a shape, as in {_EXAMPLE}")
    return tuple(map(int, parts))


def make_inputs(inputs: Inputs, batch_size: int, device: str) -> tuple[torch.Tensor, ...]:
    """Input tensors of a batch: normal noise, zeros for integers."""
    import torch

    def made(wanted: Input) -> torch.Tensor:
        kind = getattr(torch, wanted.dtype, None)
        if not isinstance(kind, torch.dtype):
            raise UserError(
                f"unknown input_dtype {wanted.dtype!r}; PyTorch's names are right: 'float32'"
            )
        make = torch.randn if kind.is_floating_point or kind.is_complex else torch.zeros
        try:
            return make((batch_size, *wanted.shape), dtype=kind, device=device)
        except (RuntimeError, TypeError) as error:
            raise UserError(
                f"PyTorch has no tensor {wanted}; give another type or shape"
            ) from error

    return tuple(map(made, inputs))


def arguments(
    names: Sequence[str], tensors: Sequence[torch.Tensor]
) -> tuple[tuple[torch.Tensor, ...], dict[str, Any]]:
    """Arguments of a call, in their order and by name."""
    pairs = list(zip(names, tensors, strict=True))
    named = {name: tensor for name, tensor in pairs if name}
    return tuple(tensor for name, tensor in pairs if not name), named
