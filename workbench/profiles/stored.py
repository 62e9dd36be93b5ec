"""What the zoo's models cost, stored: known at once, without importing PyTorch to trace them.

``scripts/profile_zoo.py`` traces every model and writes the file again. It holds for the code it
was written from, which it names by a fingerprint: where the zoo or the tracing has changed since,
nothing is taken from it, and every model is traced when it is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench import atomic, fingerprints
from workbench.errors import UserError
from workbench.paths import DATA
from workbench.profiles.model_profile import SCHEMA, ModelProfile
from workbench.zoo import MODELS

PATH = DATA / "profiles" / "zoo.json"

_PACKAGE = Path(__file__).parent.parent
_TRACING = (
    "zoo/*.py",
    "graphs/*.py",
    *(f"profiles/{name}.py" for name in ("analytic", "model_profile", "stored")),
)


class Costs(NamedTuple):
    """A model's profile, and what `workbench.profiles.moved_bytes` gives."""

    profile: ModelProfile
    moved_bytes: NDArray[np.int64]


def look_up(name: str, shapes: Sequence[Sequence[int]], input_dtype: str) -> Costs | None:
    """Return what is stored of a model of the zoo; None if it has to be traced."""
    known = MODELS[name]
    if (tuple(shapes), input_dtype) != ((known.input_shape,), "float32"):
        return None
    return _load(PATH).get(name)


def fingerprint() -> str:
    """Return a hash of the code that decides what a model of the zoo costs.

    Beside it PyTorch decides, whose version pyproject.toml fixes.
    """
    return fingerprints.fingerprint(_PACKAGE, _TRACING)


def store(models: Iterable[Costs], path: Path = PATH) -> None:
    """Write down what models cost: a line each."""
    lines = [f'{{"traced by": {json.dumps(fingerprint())}']
    for profile, moved_bytes in models:
        costs = profile.table.to_dict(as_series=False) | {
            "tensor_bytes": profile.tensor_bytes,
            "moved_bytes": moved_bytes.tolist(),
        }
        lines.append(f"{json.dumps(profile.name)}: {json.dumps(costs)}")
    atomic.write_bytes(path, (",\n".join(lines) + "}\n").encode())


@cache
def _load(path: Path) -> dict[str, Costs]:
    if not path.exists():
        return {}
    try:
        models = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(
            f"{path} is damaged ({error}): run scripts/profile_zoo.py to write it again"
        ) from error
    if models.pop("traced by", None) != fingerprint():
        return {}
    return {name: _read(name, costs) for name, costs in models.items()}


def _read(name: str, costs: dict[str, list[Any]]) -> Costs:
    moved = np.array(costs.pop("moved_bytes"), dtype=np.int64)
    moved.setflags(write=False)
    tensors = tuple(tuple(sizes) for sizes in costs.pop("tensor_bytes"))
    table = pl.DataFrame(costs, schema=SCHEMA)
    return Costs(ModelProfile(name, MODELS[name].input_shape, table, tensors), moved)
