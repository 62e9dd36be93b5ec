"""A module as a graph of operators in which nothing is written in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from workbench.graphs import frames
from workbench.graphs.graph import Recording

if TYPE_CHECKING:
    import polars as pl
    import torch


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
        return frames.nodes(self)

    @cached_property
    def edges(self) -> pl.DataFrame:
        """Who reads whose result: ``source`` and ``target`` are nodes, each pair once."""
        return frames.edges(self)

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
