"""What the zoo's models cost, stored: known at once, without importing PyTorch to trace them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.paths import DATA
from workbench.profiles.model_profile import SCHEMA, ModelProfile
from workbench.store.kept import Kept
from workbench.zoo import MODELS

KEPT = Kept(
    DATA / "profiles" / "zoo.json",
    ("workbench.profiles.analytic", "zoo_as_json"),
    "scripts/trace_zoo.py profiles",
)


class Costs(NamedTuple):
    """A model's profile, and what `workbench.profiles.moved_bytes` gives."""

    profile: ModelProfile
    moved_bytes: NDArray[np.int64]


def look_up(name: str, shapes: Sequence[Sequence[int]], input_dtype: str) -> Costs | None:
    """Return what is stored of a model of the zoo; None if it has to be traced."""
    if (tuple(shapes), input_dtype) != ((MODELS[name].input_shape,), "float32"):
        return None
    return _load(KEPT).get(name)


@cache
def _load(kept: Kept) -> dict[str, Costs]:
    models = json.loads(kept.content() or b"{}")
    return {name: _read(name, costs) for name, costs in models.items()}


def _read(name: str, costs: dict[str, list[Any]]) -> Costs:
    moved = np.array(costs.pop("moved_bytes"), dtype=np.int64)
    moved.setflags(write=False)
    tensors = tuple(tuple(sizes) for sizes in costs.pop("tensor_bytes"))
    table = pl.DataFrame(costs, schema=SCHEMA)
    return Costs(ModelProfile(name, MODELS[name].input_shape, table, tensors), moved)
