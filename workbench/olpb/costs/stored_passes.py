"""What backward passes of the zoo cost, stored: known at once, without importing PyTorch.

Groups as the paper counts them, at each level that a slider reaches; and by arithmetic the FLOPs of
every product of Jacobians that a scan on a slider's nodes makes, with the entries of what it gives.
Beyond the sliders all is computed.
"""

from __future__ import annotations

import functools
import io
import itertools
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workbench.olpb.algorithms import levels
from workbench.olpb.algorithms.schedules import ALGORITHMS
from workbench.olpb.costs import arithmetic, backward
from workbench.olpb.costs.arithmetic import Elements, as_arithmetic_costs
from workbench.olpb.costs.backward import Part
from workbench.olpb.costs.patterns import Pattern
from workbench.olpb.costs.subtasks import Subtask
from workbench.olpb.costs.timing import Work
from workbench.utils.files import DATA

if TYPE_CHECKING:
    import torch

LEVELS, NODES = 8, 64
"""Most levels in a group, and most nodes of a scan, that are stored."""

Integers = NDArray[np.int64]
Arrays = Mapping[str, NDArray[Any]]

STORED = DATA / "graphs" / "backward.zip"
"""Written by `scripts/trace_zoo.py`."""


def stored_groups(
    model: str | torch.nn.Module,
    batch_size: int = 1,
    unit: str = "operator",
    level: int = 1,
    *,
    operator_flops: float = 0.0,
) -> tuple[Subtask, ...]:
    """As `workbench.olpb.costs.backward.subtasks`, but groups that are stored have no names."""
    stored = None
    if isinstance(model, str):
        stored = _look_up(_name("groups", model, unit, level))
    if stored is None:
        parts = backward.parts(model, unit, level)
    else:
        columns = [stored[name].tolist() for name in _GROUPS]
        parts = tuple(Part(*row) for row in zip(*columns, strict=True))
    return backward.priced(parts, batch_size, operator_flops=operator_flops)


def stored_work(model: str, unit: str, level: int, nodes: int, scan: str) -> Work:
    """What a scan of one sample costs by arithmetic, for a model of the zoo.

    As `workbench.olpb.costs.arithmetic.as_arithmetic_costs` has it, for an exclusive scan on so
    many nodes; see `network_elements` for units and levels.
    """
    elements = _elements(model, unit, level) if nodes <= NODES else None
    if elements is None:
        elements = arithmetic.network_elements(model, 1, unit, level)
    return as_arithmetic_costs(backward.plan(len(elements), nodes, scan), elements)


@functools.lru_cache(maxsize=16)
def _elements(model: str, unit: str, level: int) -> Elements | None:
    stored = _look_up(_name("jacobians", model, unit, level))
    return None if stored is None else _StoredElements(stored)


class _StoredElements(Elements):
    """Elements whose products were computed before: of scans on up to `NODES` nodes."""

    def __init__(self, stored: Arrays) -> None:
        self._rows = stored["rows"].tolist()
        self.gradient_numbers = int(stored["gradient_numbers"][0])
        self.parameter_flops = tuple(stored["parameter_flops"].tolist())
        products = _unpacked(stored["product"], 2, len(self._rows) + 1)
        self._entries = dict(zip(products, map(int, stored["entries"]), strict=True))
        self.patterns = tuple(self.product(at, at) for at in range(1, len(self._rows) + 1))
        moves = _unpacked(stored["move"], 3, len(self._rows) + 1)
        self._flops = dict(zip(moves, map(int, stored["flops"]), strict=True))

    def product(self, first: int, last: int) -> Pattern:
        """Pattern of combined elements, of which only how many entries it has is known."""
        return _Counted({}, self._rows[last - 1], self._entries[first, last])


@dataclass(frozen=True, eq=False)
class _Counted(Pattern):
    entries: int = 0

    @property
    def nonzeros(self) -> int:
        """Entries."""
        return self.entries


def costs(model: str) -> Iterator[tuple[str, bytes]]:
    """Compute what is to be stored of a model, by name; up to a minute for the largest."""
    from workbench.graphs import trace

    for unit, level in _units("layer", "matrix_layer"):
        arrays = _group_arrays(model, unit, level)
        yield _name("groups", model, unit, level), _as_bytes(arrays)
    graph = trace(model)
    flow = levels.flow(graph)
    for unit, level in _units("matrix_layer"):
        arrays = _element_arrays(Elements(graph, flow, unit, level))
        yield _name("jacobians", model, unit, level), _as_bytes(arrays)


def _as_bytes(arrays: Arrays) -> bytes:
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    return content.getvalue()


_GROUPS = Part._fields[:-1]  # but for names


def _group_arrays(model: str, unit: str, level: int) -> Arrays:
    columns = zip(*(part[:-1] for part in backward.parts(model, unit, level)), strict=True)
    return {name: np.array(one, np.int64) for name, one in zip(_GROUPS, columns, strict=True)}


def _element_arrays(elements: Elements) -> Arrays:
    count = len(elements)
    for nodes, scan in itertools.product(range(1, NODES + 1), ALGORITHMS):
        as_arithmetic_costs(backward.plan(count, nodes, scan), elements)  # which keeps products
    entries = {(at, at): one.nonzeros for at, one in enumerate(elements.patterns, 1)}
    entries |= {key: one.nonzeros for key, one in elements._products.items()}
    flops = {key: one for key, one in elements._flops.items() if key[0]}
    return {
        "gradient_numbers": np.array([elements.gradient_numbers]),
        "parameter_flops": np.array(elements.parameter_flops, np.int64),
        "rows": np.array([one.rows for one in elements.patterns], np.int64),
        "product": _packed(entries, count),
        "entries": _whole(entries[key] for key in sorted(entries)),
        "move": _packed(flops, count),
        "flops": _whole(flops[key] for key in sorted(flops)),
    }


def _whole(numbers: Iterable[int]) -> NDArray[Any]:
    """Whole numbers; some products of Jacobians need more of them than 64 bits hold."""
    found = list(numbers)
    return np.array(found, np.int64 if max(found, default=0) < 2**63 else float)


def _packed(keys: Iterable[tuple[int, ...]], count: int) -> Integers:
    """Sorted tuples of numbers below `count`, each as a number; differences of these."""
    numbers = sorted(
        functools.reduce(lambda so_far, one: so_far * count + one, key) for key in keys
    )
    return np.array(numbers, np.int64) - np.array([0, *numbers[:-1]], np.int64)


def _unpacked(differences: Integers, each: int, count: int) -> Iterator[Any]:
    """Tuples of `each` numbers below `count`, as `_packed` has them."""
    numbers = np.cumsum(differences)
    return zip(*(one.tolist() for one in np.unravel_index(numbers, (count,) * each)), strict=True)


def _units(*layers: str) -> list[tuple[str, int]]:
    """Units and levels that are stored."""
    operators = [("operator", level) for level in range(1, LEVELS + 1)]
    return [*operators, *((layer, 1) for layer in layers)]


def _name(counting: str, model: str, unit: str, level: int) -> str:
    return f"{model}, {counting}, {unit}, {level}"


@functools.lru_cache(maxsize=64)
def _look_up(name: str) -> Arrays | None:
    """What is stored under a name; None if it has to be computed."""
    archive = _archive()
    if name not in archive.NameToInfo:
        return None
    with np.load(io.BytesIO(archive.read(name))) as arrays:
        return dict(arrays)


@functools.cache
def _archive() -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(STORED.read_bytes()))
