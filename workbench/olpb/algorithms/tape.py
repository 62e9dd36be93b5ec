"""What a gradient passes through: the operators of one pass, with the numbers they had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._pytree import tree_map_only

from workbench.graphs.graph import Operator, Recording, View
from workbench.graphs.recorder import tensors_in
from workbench.graphs.recording import learning
from workbench.olpb.algorithms.levels import Flow


@dataclass(frozen=True, eq=False)
class Call:
    """An operator that a gradient passes through, with the tensors it was called with.

    Attributes
    ----------
    number, operator
        In the graph.
    arguments
        Positional ones and those by name, with their numbers as they were before the call.
    carrying
        Which of the tensors among them, in their order, carry a gradient.
    random_state
        Of the generator before an operator that draws from it.
    """

    number: int
    operator: Operator
    arguments: tuple[tuple[Any, ...], dict[str, Any]]
    results: tuple[Tensor, ...]
    carrying: tuple[int, ...]
    random_state: Tensor | None = None

    @property
    def name(self) -> str:
        """As PyTorch calls it."""
        return self.operator.name

    @cached_property
    def reads(self) -> tuple[Tensor, ...]:
        """Tensors among the arguments."""
        return tuple(tensors_in(self.arguments))

    @property
    def args(self) -> tuple[Any, ...]:
        """Positional arguments."""
        return self.arguments[0]

    def argument(self, at: int, name: str, default: Any = None) -> Any:
        """One argument, positional or by name."""
        args, kwargs = self.arguments
        return args[at] if len(args) > at else kwargs.get(name, default)

    @property
    def written_into(self) -> tuple[View, ...]:
        """What it reads and writes into: outside of these views, values stay as they are."""
        if not self.operator.function._schema.is_mutable:
            return ()
        return tuple(
            self.operator.reads[at] for at in range(len(self.reads)) if at in self._overwritten
        )

    @cached_property
    def _overwritten(self) -> frozenset[int]:
        args, kwargs = self.arguments
        ids = {id(one) for one in written(self.operator.function, args, kwargs)}
        return frozenset(at for at, one in enumerate(self.reads) if id(one) in ids)

    def again(self, replaced: Mapping[int, Tensor]) -> tuple[Tensor, ...]:
        """Call the operator with other tensors in the place of some that it reads."""
        numbers = iter(range(len(self.reads)))

        def other(tensor: Tensor) -> Tensor:
            number = next(numbers)
            tensor = replaced.get(number, tensor)
            return tensor.clone() if number in self._overwritten else tensor

        args, kwargs = tree_map_only(Tensor, other, self.arguments)
        if self.random_state is None:
            return tuple(tensors_in(self.operator.function(*args, **kwargs)))
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self.random_state)
            return tuple(tensors_in(self.operator.function(*args, **kwargs)))

    def backward(
        self,
        gradients: Mapping[int, Tensor],
        at: Mapping[int, Tensor] | None = None,
        *,
        batched: bool = False,
    ) -> dict[int, Tensor]:
        """Gradients of what it reads from those of its results, by local autograd.

        Of all that carry one, or of other tensors in the place of some, by which read they are.
        `batched` gradients have a first axis more, and so what is found.
        """
        with learning():
            given = {one: self.reads[one] for one in self.carrying} if at is None else at
            leaves = {one: tensor.detach().requires_grad_() for one, tensor in given.items()}
            made = self.again(leaves)
            ends = [one for one in gradients if made[one].requires_grad]
            found: Sequence[Tensor | None] = [None] * len(leaves)
            if ends:
                found = torch.autograd.grad(
                    [made[one] for one in ends],
                    list(leaves.values()),
                    [gradients[one].to(made[one].dtype) for one in ends],
                    allow_unused=True,
                    is_grads_batched=batched,
                )
        each = zip(leaves.items(), found, strict=True)
        return {one: torch.zeros_like(leaf) if got is None else got for (one, leaf), got in each}


@dataclass(frozen=True, eq=False)
class Tape:
    """One pass: its graph, the calls from the first weights to the loss, and the loss.

    Attributes
    ----------
    parameters
        Those that learn, by name, and where they are in their storage.
    """

    graph: Recording
    calls: tuple[Call, ...]
    parameters: Mapping[str, View]
    loss: float

    @cached_property
    def makers(self) -> Mapping[int, int]:
        """By value, which of the calls makes it."""
        return {
            view.value: at for at, call in enumerate(self.calls) for view in call.operator.makes
        }

    @cached_property
    def flow(self) -> Flow:
        """Its calls without their numbers."""
        sources = (
            (*(call.operator.reads[at] for at in call.carrying), *call.written_into)
            for call in self.calls
        )
        return Flow(
            tuple(call.name for call in self.calls),
            tuple(call.operator.weighted for call in self.calls),
            tuple(frozenset(v.value for v in views if v.value in self.makers) for views in sources),
            self.makers,
            frozenset(view.value for view in self.graph.outputs),
        )

    @cached_property
    def sizes(self) -> Mapping[int, int]:
        """By value that a call makes or that is a parameter: how many numbers its storage has."""
        views = [view for call in self.calls for view in call.operator.makes]
        return {
            view.value: self.graph.values[view.value].storage_bytes
            // getattr(torch, view.dtype).itemsize
            for view in (*views, *(self.parameters.values()))
        }

    def overwritten(self, call: Call) -> list[tuple[int, int, NDArray[np.int64]]]:
        """What a call writes into: the value before, the value after, and the places it writes.

        Without numbers that it only draws, which it returns none of.
        """
        storages = {
            self.graph.values[view.value].storage: view.value for view in call.operator.makes
        }
        return [
            (view.value, storages[self.graph.values[view.value].storage], places(view))
            for view in call.written_into
            if self.graph.values[view.value].storage in storages
        ]


def places(view: View) -> NDArray[np.int64]:
    """Where the elements of a view, row by row, are in its storage."""
    found = np.full(view.shape, view.offset, np.int64)
    for axis, (length, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
        along = np.arange(length) * stride
        found += along.reshape([-1] + [1] * (len(view.shape) - axis - 1))
    return found.reshape(-1)


def written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """Tensors that an operator of PyTorch writes into, by its schema."""
    schema = func._schema.arguments
    names = [one.name for one in schema if one.alias_info and one.alias_info.is_write]
    given = {one.name: argument for one, argument in zip(schema, args, strict=False)} | dict(kwargs)
    return tensors_in([given.get(name) for name in names])
