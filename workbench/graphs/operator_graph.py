"""A module as a graph of operators in which nothing is written in place, and its tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from workbench.graphs.graph import Recording, View

if TYPE_CHECKING:
    import torch


NODES: dict[str, Any] = {
    "node": pl.Int64,
    "name": pl.String,
    "kind": pl.String,
    "phase": pl.String,
    "shape": pl.List(pl.Int64),
    "dtype": pl.String,
    "bytes": pl.Int64,
    "flops": pl.Int64,
    "may_overwrite": pl.List(pl.Int64),
    "shows": pl.Int64,
}


@dataclass(frozen=True, eq=False)
class OperatorGraph(Recording):
    """Operators of inference, or of a step of training; made by `workbench.graphs.trace`."""

    @classmethod
    def of(
        cls,
        recording: Recording,
        name: str = "",
        module: Callable[[], torch.nn.Module] | None = None,
    ) -> OperatorGraph:
        """The graph of a recording in which nothing is written in place."""
        parts = {field.name: getattr(recording, field.name) for field in fields(Recording)}
        return cls(**parts | {"name": name, "module": module})

    @cached_property
    def nodes(self) -> pl.DataFrame:
        """What is read from outside, and then the operators: a row each.

        ``node`` is a number; ``name`` an operator's, or that of an input, parameter or constant;
        ``kind`` one of those four words; ``phase`` an operator's; ``shape``, ``dtype`` and
        ``bytes`` of its first result, and of all results that are no views; ``flops``, two per
        multiply-add; ``may_overwrite`` has nodes whose results it may take the place of, ``shows``
        the node whose memory a view shows.
        """
        return self._numbered[0]

    @cached_property
    def edges(self) -> pl.DataFrame:
        """Who reads whose result: ``source`` and ``target`` are nodes, each pair once."""
        pairs = list(dict.fromkeys(self._numbered[1]))
        return pl.DataFrame(pairs, {"source": pl.Int64, "target": pl.Int64}, orient="row")

    @cached_property
    def _numbered(self) -> tuple[pl.DataFrame, list[tuple[int, int]]]:
        return _numbered(self)

    def __repr__(self) -> str:
        """In a line: the operators' lists would fill pages."""
        return f"OperatorGraph({self.name}: {len(self.operators)} operators)"

    def run(
        self, inputs: Sequence[torch.Tensor] | torch.Tensor, module: torch.nn.Module | None = None
    ) -> tuple[torch.Tensor, ...]:
        """Run the operators one after the other on real tensors; return the graph's outputs.

        With the weights of `module`, by default those of the module that was traced; a model by
        name has the same random weights each time. Neither it nor the inputs are changed. Raises
        ValueError: inputs of other shapes or types.
        """
        from workbench.graphs.running import run

        return run(self, inputs, module)


def _numbered(graph: Recording) -> tuple[pl.DataFrame, list[tuple[int, int]]]:
    """Nodes in the order in which they are first read or run, and who reads whose result."""
    rows: list[dict[str, Any]] = []
    edges: list[tuple[int, int]] = []
    prepared = {view.value for operator in graph.preparation for view in operator.makes}
    makers: dict[int, int] = {}  # node that made a value
    showing: dict[View, int] = {}  # node whose result is just this view

    def add(shown: View | None, **about: Any) -> None:
        form = {"shape": list(shown.shape), "dtype": shown.dtype} if shown else {}
        rows.append({"node": len(rows), **form, **about})

    for view in (*graph.inputs, *(view for operator in graph.operators for view in operator.reads)):
        value = graph.values[view.value]
        kind = "constant" if view.value in prepared else value.origin
        if kind != "operator" and view.value not in makers:
            makers[view.value] = len(rows)
            about = {"name": value.name, "kind": kind, "bytes": value.storage_bytes, "flops": 0}
            add(view, **about, may_overwrite=[])
    for operator in graph.operators:
        node = len(rows)
        read = [showing.get(view, makers[view.value]) for view in operator.reads]
        edges += [(source, node) for source in read]
        makers |= dict.fromkeys((view.value for view in operator.makes), node)
        add(
            operator.results[0] if operator.results else None,
            name=operator.name,
            kind="operator",
            phase=operator.phase,
            bytes=sum(view.size_bytes for view in operator.makes),
            flops=operator.flops,
            may_overwrite=[read[at] for at in sorted(operator.may_overwrite)],
            shows=None if operator.makes or not operator.results else next(iter(read), None),
        )
        showing |= dict.fromkeys(operator.results, node)
    return pl.DataFrame(rows, schema=NODES), edges
