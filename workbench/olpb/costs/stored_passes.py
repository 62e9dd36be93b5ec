"""Stored costs of the zoo's backward passes: known at once, without importing PyTorch.

Groups as the paper counts them, at each number of levels that a slider reaches; and by arithmetic
the FLOPs of every product of Jacobians that a scan on a slider's nodes makes, with the entries of
what it gives. Beyond the sliders all is computed.
"""

from __future__ import annotations

import functools
import io
import itertools
import zipfile
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workbench.olpb.algorithms.scans import SCANS
from workbench.olpb.costs import arithmetic, backward
from workbench.olpb.costs.arithmetic import Elements, as_arithmetic_costs
from workbench.olpb.costs.backward import Part
from workbench.olpb.costs.subtasks import Subtask
from workbench.olpb.costs.timing import Work
from workbench.utils.files import DATA

if TYPE_CHECKING:
    import torch

LEVELS, NODES = 8, 64
"""Most levels in a group, and most nodes of a scan, that are stored."""

Arrays = Mapping[str, NDArray[Any]]

STORED = DATA / "graphs" / "backward.zip"
"""Written by `scripts/trace_zoo.py`."""


def stored_groups(
    model: str | torch.nn.Module,
    batch_size: int = 1,
    unit: str = "operator",
    levels: int = 1,
    *,
    operator_flops: float = 0.0,
) -> tuple[Subtask, ...]:
    """Look up what `workbench.olpb.costs.backward.subtasks` computes."""
    stored = _look_up(_name("groups", model, unit, levels)) if isinstance(model, str) else None
    if stored is None:
        parts = backward.parts(model, unit, levels)
    else:
        columns = [stored[name].tolist() for name in Part._fields]
        parts = tuple(Part(*row) for row in zip(*columns, strict=True))
    return backward.priced(parts, batch_size, operator_flops=operator_flops)


def stored_work(model: str, unit: str, levels: int, nodes: int, scan: str) -> Work:
    """Costs of a scan of one sample by arithmetic, for a model of the zoo.

    As `workbench.olpb.costs.arithmetic.as_arithmetic_costs` has it, for an exclusive scan on that
    many nodes; see `network_elements` for units and levels.
    """
    elements = _stored_elements(model, unit, levels) if nodes <= NODES else None
    if elements is None:
        elements = arithmetic.network_elements(model, 1, unit, levels)
    return as_arithmetic_costs(backward.plan(len(elements), nodes, scan), elements)


@functools.lru_cache(maxsize=16)
def _stored_elements(model: str, unit: str, levels: int) -> Elements | None:
    stored = _look_up(_name("jacobians", model, unit, levels))
    if stored is None:
        return None
    spans, products = (zip(*stored[name].tolist(), strict=True) for name in ("spans", "products"))
    return Elements(
        int(stored["gradient_numbers"][0]),
        tuple(stored["rows"].tolist()),
        tuple(stored["parameter_flops"].tolist()),
        dict(zip(spans, map(int, stored["nonzeros"]), strict=True)),
        dict(zip(products, map(int, stored["product_flops"]), strict=True)),
    )


def costs(model: str) -> Iterator[tuple[str, bytes]]:
    """Compute what is to be stored of a model, by name; up to a minute for the largest."""
    from workbench.memory import trace

    operators = [("operator", levels) for levels in range(1, LEVELS + 1)]
    for unit, levels in [*operators, ("layer", 1)]:
        columns = zip(*backward.parts(model, unit, levels), strict=True)
        arrays = {
            name: np.array(column, np.int64)
            for name, column in zip(Part._fields, columns, strict=True)
        }
        yield _name("groups", model, unit, levels), _as_bytes(arrays)
    graph = trace(model)
    for unit, levels in [*operators, ("matrix_layer", 1)]:
        arrays = _arrays(arithmetic.elements_of(graph, unit, levels))
        yield _name("jacobians", model, unit, levels), _as_bytes(arrays)


def _arrays(elements: Elements) -> dict[str, NDArray[Any]]:
    """All that scans on up to `NODES` nodes need of elements."""
    for nodes, scan in itertools.product(range(1, NODES + 1), SCANS):
        as_arithmetic_costs(backward.plan(len(elements), nodes, scan), elements)
    return {
        "gradient_numbers": np.array([elements.gradient_numbers]),
        "parameter_flops": np.array(elements.parameter_flops, np.int64),
        "rows": np.array(elements.rows, np.int64),
        "spans": np.array(sorted(elements.nonzeros), np.int16).reshape(-1, 2).T.copy(),
        "nonzeros": _sorted(elements.nonzeros),
        "products": np.array(sorted(elements.product_flops), np.int16).reshape(-1, 3).T.copy(),
        "product_flops": _sorted(elements.product_flops),
    }


def _sorted(numbers: Mapping[Any, int]) -> NDArray[Any]:
    """Whole numbers by key; some products of Jacobians need more of them than 64 bits hold."""
    by_key = [numbers[key] for key in sorted(numbers)]
    return np.array(by_key, np.int64 if max(by_key, default=0) < 2**63 else float)


def _as_bytes(arrays: Arrays) -> bytes:
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    return content.getvalue()


def _name(counting: str, model: str, unit: str, levels: int) -> str:
    return f"{model}, {counting}, {unit}, {levels}"


@functools.lru_cache(maxsize=64)
def _look_up(name: str) -> Arrays | None:
    """Arrays that are stored under a name; None if they have to be computed."""
    archive = _archive()
    if name not in archive.NameToInfo:
        return None
    with np.load(io.BytesIO(archive.read(name))) as arrays:
        return dict(arrays)


@functools.cache
def _archive() -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(STORED.read_bytes()))
