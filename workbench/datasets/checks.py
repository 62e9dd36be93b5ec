"""Check of a training's data set, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.datasets.dataset import Dataset
from workbench.errors import UserError


def check_dataset(
    dataset: object, model: str = "the model", input_shape: Sequence[int] | None = None
) -> Dataset:
    """Return `dataset` if it is a `Dataset` whose images the model takes.

    `model` is its name, for the error; `input_shape` is channels, height and width, if known.

    Raises ValueError: a name or anything else that is no `Dataset`, or images of another shape.
    """
    fitted = "" if input_shape is None else f".fitted({tuple(input_shape)})"
    if isinstance(dataset, str):
        raise UserError(
            f"dataset is the name {dataset!r}; give datasets.load({dataset!r}){fitted}, of images "
            f"as {model} takes them"
        )
    if not isinstance(dataset, Dataset):
        what = "None" if dataset is None else f"of type {type(dataset).__name__}"
        raise UserError(
            f"dataset is {what}; give a datasets.Dataset, such as datasets.load('digits'){fitted}"
        )
    if input_shape is not None and dataset.input_shape != tuple(input_shape):
        raise UserError(
            f"{dataset.name} has images {dataset.input_shape}, {model} takes {tuple(input_shape)}; "
            f"use dataset{fitted}"
        )
    return dataset
