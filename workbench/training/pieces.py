"""A module cut into its layers, so that some of them can be run by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from workbench.profiles.analytic import input_shapes

if TYPE_CHECKING:
    import torch

    from workbench.training.piece_graph import PieceGraph

    Modes = tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class Pieces:
    """A module as the chain of layers of its profile, first layer first.

    Attributes
    ----------
    module
        Used as it is: its parameters, its buffers, the mode of each of its parts at the time.
    layers
        Names, as in ``profile_model(module, input_shape)``.
    """

    module: torch.nn.Module
    layers: tuple[str, ...]
    _shapes: tuple[tuple[int, ...], ...] = field(repr=False)
    _dtype: str = field(repr=False)
    _graphs: dict[Modes, PieceGraph] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.layers)

    def run(
        self, first: int, last: int, tensors: Sequence[torch.Tensor]
    ) -> tuple[torch.Tensor, ...]:
        """Run layers `first` to `last`, both included, from 1.

        Autograd records it as it would record the whole. What is given is never written to.

        Parameters
        ----------
        tensors
            What crosses the cut before layer `first`, as `run` returned it, for any number of
            samples; the module's inputs where `first` is 1.

        Returns
        -------
        tuple of tensors, samples in the first dimension
            What crosses the cut behind layer `last`: more than one where a shortcut passes it.
            The module's outputs where `last` is the last layer.

        Raises
        ------
        ValueError
            No such layers, or as many tensors as cross there not.
        """
        if not 1 <= first <= last <= len(self):
            raise ValueError(f"layers {first} to {last} are not within 1 to {len(self)}")
        graph = self.graph
        wanted = len(graph.inputs) if first == 1 else len(graph.crossings[first - 2])
        if len(tensors) != wanted:
            raise ValueError(
                f"layer {first} of {type(self.module).__name__} takes {wanted} tensors, "
                f"not {len(tensors)}"
            )
        return graph.run(self.module, first, last, tuple(tensors))

    def on(self, module: torch.nn.Module) -> Pieces:
        """Pieces of another module that is built alike, such as a replica; not traced again."""
        return replace(self, module=module)

    @property
    def crossing_bytes(self) -> tuple[int, ...]:
        """Bytes per sample that cross the cut behind each layer but the last."""
        return tuple(sum(one.bytes_per_sample for one in cut) for cut in self.graph.crossings)

    @property
    def parameters(self) -> tuple[frozenset[str], ...]:
        """Names of the parameters that each layer uses; of a tied one, several layers do."""
        return self.graph.parameters

    @property
    def buffers(self) -> tuple[frozenset[str], ...]:
        """Names of the buffers, such as running statistics, that each layer uses."""
        return self.graph.buffers

    @property
    def graph(self) -> PieceGraph:
        """Calls of each layer, in the modes that the module's parts have now."""
        from workbench.training.piece_tracing import trace_pieces

        modes = tuple(part.training for part in self.module.modules())
        if modes not in self._graphs:
            self._graphs[modes] = trace_pieces(self.module, self._shapes, self._dtype, self.layers)
        return self._graphs[modes]


def cut(
    module: torch.nn.Module,
    input_shape: Sequence[int] | Sequence[Sequence[int]],
    *,
    input_dtype: str = "float32",
) -> Pieces:
    """Cut a module into the layers of its profile.

    >>> from workbench import zoo
    >>> pieces = cut(zoo.build("lenet5"), (1, 28, 28))
    >>> import torch
    >>> features = pieces.run(1, 2, [torch.zeros(7, 1, 28, 28)])
    >>> [tuple(tensor.shape) for tensor in features]
    [(7, 400)]
    >>> [tuple(tensor.shape) for tensor in pieces.run(3, 5, features)]
    [(7, 10)]

    Parameters
    ----------
    module, input_shape, input_dtype
        As for `workbench.profiles.profile_model`; the dtype is that in which the module computes.

    Raises
    ------
    workbench.profiles.tracing.UntraceableError
        `torch.fx` cannot follow the module's forward; a `ValueError`.
    ValueError
        As `profile_model` does. A part that torch.fx takes as a whole makes several layers (as
        ``nn.LSTM(num_layers=2)``); what crosses a cut is no tensor with samples in its first
        dimension; an earlier layer changes in place what a later one has read before.
    """
    from workbench.training.piece_tracing import trace_layers

    shapes = input_shapes(module, input_shape)
    layers = trace_layers(module, shapes, input_dtype)
    pieces = Pieces(module, layers, shapes, input_dtype)
    return replace(pieces, _graphs={tuple(p.training for p in module.modules()): pieces.graph})
