"""A module as a graph of operators in which nothing is written in place, and its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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

    @cached_property
    def nodes(self) -> pl.DataFrame:
        """What is read from outside, and then the operators: a row each.

        ``node`` is a number; ``name`` an operator's, or that of an input, parameter or constant;
        ``kind`` one of those four words; ``phase`` an operator's; ``shape``, ``dtype`` and
        ``bytes`` of its first result, and of all results that are no views; ``flops``, two per
        multiply-add; ``may_overwrite`` has nodes whose results it may take the place of, ``shows``
        the node whose memory a view shows.
        """
        return self._numbered.nodes

    @cached_property
    def edges(self) -> pl.DataFrame:
        """Who reads whose result: ``source`` and ``target`` are nodes, each pair once."""
        pairs = list(dict.fromkeys(self._numbered.edges))
        return pl.DataFrame(pairs, {"source": pl.Int64, "target": pl.Int64}, orient="row")

    @cached_property
    def _numbered(self) -> _Numbered:
        return _Numbered(self)

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


class _Numbered:
    """Nodes of a graph in the order in which they are first read or run."""

    def __init__(self, graph: Recording) -> None:
        self.graph = graph
        self.rows: list[dict[str, Any]] = []
        self.edges: list[tuple[int, int]] = []
        self._prepared = {view.value for operator in graph.preparation for view in operator.makes}
        self._makers: dict[int, int] = {}  # node that made a value
        self._showing: dict[View, int] = {}  # node whose result is just this view
        views = [view for operator in graph.operators for view in operator.reads]
        for view in [*graph.inputs, *views]:
            self._add_source(view)
        for operator in graph.operators:
            node = len(self.rows)
            read = [self._source(view) for view in operator.reads]
            self.edges += [(source, node) for source in read]
            for view in operator.makes:
                self._makers[view.value] = node
            shows = None if operator.makes or not operator.results else read[:1]
            first = operator.results[0] if operator.results else None
            self._add(
                first,
                name=operator.name,
                kind="operator",
                phase=operator.phase,
                bytes=sum(view.size_bytes for view in operator.makes),
                flops=operator.flops,
                may_overwrite=[read[at] for at in sorted(operator.may_overwrite)],
                shows=shows[0] if shows else None,
            )
            self._showing |= dict.fromkeys(operator.results, node)

    @property
    def nodes(self) -> pl.DataFrame:
        return pl.DataFrame(self.rows, schema=NODES)

    def _source(self, view: View) -> int:
        return self._showing.get(view, self._makers[view.value])

    def _add_source(self, view: View) -> None:
        value = self.graph.values[view.value]
        kind = "constant" if view.value in self._prepared else value.origin
        if kind == "operator" or view.value in self._makers:
            return
        self._makers[view.value] = len(self.rows)
        about = {"name": value.name, "kind": kind, "bytes": value.storage_bytes, "flops": 0}
        self._add(view, **about, may_overwrite=list[int]())

    def _add(self, shown: View | None, **about: Any) -> None:
        form = {"shape": list(shown.shape), "dtype": shown.dtype} if shown else {}
        self.rows.append({"node": len(self.rows), **form, **about})
