"""A module cut into its layers, each of which can run alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from workbench.errors import UserError
from workbench.graphs import find_layers, follow, input_shapes
from workbench.training.cuts import LayeredCalls

if TYPE_CHECKING:
    import torch

    Modes = tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class Pieces:
    """A module as the chain of layers of its profile, first layer first.

    The module is used as it is: its parameters, its buffers, the current mode of each of its parts.
    `layers` are names, as in ``profile_model(module, input_shape)``.
    """

    module: torch.nn.Module
    layers: tuple[str, ...]
    _shapes: tuple[tuple[int, ...], ...] = field(repr=False)
    _dtype: str = field(repr=False)
    _calls: dict[Modes, LayeredCalls] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.layers)

    def run(
        self, first: int, last: int, tensors: Sequence[torch.Tensor]
    ) -> tuple[torch.Tensor, ...]:
        """Run layers `first` to `last`, both included, from 1.

        Autograd records it as it would record the whole. Arguments are never written to.

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
        """
        if not 1 <= first <= last <= len(self):
            raise UserError(f"layers {first} to {last} are not within 1 to {len(self)}")
        calls = self.calls
        wanted = len(calls.entering(first))
        if len(tensors) != wanted:
            raise UserError(
                f"layer {first} of {calls.name} takes {wanted} tensors, not {len(tensors)}"
            )
        return calls.run(self.module, first, last, tuple(tensors))

    def on(self, module: torch.nn.Module) -> Pieces:
        """Pieces of another module of the same structure, such as a replica; not traced again."""
        return replace(self, module=module)

    @property
    def crossing_bytes(self) -> tuple[int, ...]:
        """Bytes per sample that cross the cut behind each layer but the last."""
        return tuple(map(self.calls.bytes_per_sample, range(2, len(self) + 1)))

    @property
    def parameters(self) -> tuple[frozenset[str], ...]:
        """Names of the trained parameters that each layer uses; several use a tied one."""
        named = self.module.named_parameters()
        return self._used({name for name, one in named if one.requires_grad})

    @property
    def buffers(self) -> tuple[frozenset[str], ...]:
        """Names of the buffers, such as running statistics, that each layer uses."""
        return self._used({name for name, _ in self.module.named_buffers()})

    @property
    def calls(self) -> LayeredCalls:
        """Calls of each layer, in the modes that the module's parts have now."""
        modes = tuple(part.training for part in self.module.modules())
        if modes not in self._calls:
            self._calls[modes] = self._traced()
        return self._calls[modes]

    def _used(self, names: set[str]) -> tuple[frozenset[str], ...]:
        return tuple(used & names for used in self.calls.names_used)

    def _traced(self) -> LayeredCalls:
        from workbench.graphs.calls import trace_calls

        name = type(self.module).__name__
        calls = LayeredCalls(name, trace_calls(self.module, self._shapes, self._dtype))
        if len(calls) != len(self):
            raise UserError(
                f"{name} has {len(calls)} layers as it is set now, but {len(self)} in training; "
                "set the modes of its parts alike: module.train() or module.eval()"
            )
        calls.check()
        return calls


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

    Arguments are those of `workbench.profiles.profile_model`; the dtype is that in which the module
    computes.

    Raises
    ------
    ValueError
        As `profile_model` does. The module has a gradient of its own (`torch.autograd.Function`),
        or depends on the number of samples otherwise than in proportion. A call of PyTorch makes
        several layers (an ``nn.LSTM`` of two); a tensor that crosses a cut has no samples in its
        first dimension; an earlier layer changes in place what a later one has read before; a
        later one, one of two views that cross.
    """
    shapes = input_shapes(module, input_shape)
    layers = find_layers(follow(module, shapes, input_dtype=input_dtype)).names
    pieces = Pieces(module, layers, shapes, input_dtype)
    _ = pieces.calls  # traced now, so that what cannot be cut is refused
    return pieces
