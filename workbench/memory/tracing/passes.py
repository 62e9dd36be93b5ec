"""Traces the forward and the backward pass of a module as one graph, whatever loss lies between.

The gradients of what the module returns come in as inputs, after the module's own. Beside what it
returns, the graph gives the gradients of its parameters and of its inputs, those that PyTorch would
give: a parameter that is not reached has none.

PyTorch's own `aot_export_module(trace_joint=True)`, of 2.13, traces LeNet, ResNet, SqueezeNet,
MobileNet, ViT, GPT-2 and Llama. It does not serve: the loss has to lie in the module; it refuses a
parameter without a gradient (BERT, T5, Mask R-CNN), attention masks (it asks for numbers), a part
that is called twice, an LSTM, bounded embeddings, and most complex numbers; and its gradients
have other bits where images lie channels last under dropout, and of a GRU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from workbench.memory.tracing.functional import DrawingInPlace, faked, functional
from workbench.memory.tracing.kernels import KernelRecorder
from workbench.memory.tracing.side_effects import check_unchanged, refuse_draws, run_watched
from workbench.profiles.copies import copied_with, held_tensors, run_once
from workbench.profiles.explained import Advice, explained
from workbench.profiles.graph import Operand, Operator, OperatorGraph, Value, View
from workbench.profiles.private import FakeTensorMode, storage_key
from workbench.profiles.recorder import tensors_in
from workbench.profiles.recording import learning
from workbench.utils.checks import UserError

Strides = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Returned:
    """Structure of a module's result: leaves of a tree, with None in the place of tensors."""

    tree: TreeSpec
    leaves: tuple[Any, ...]
    is_tensor: tuple[bool, ...]
    differentiable: tuple[int, ...]  # numbers of the tensors that have a gradient

    def filled(self, tensors: Sequence[Tensor]) -> Any:
        """Put tensors into their places in the tree."""
        rest = iter(tensors)
        pairs = zip(self.leaves, self.is_tensor, strict=True)
        return tree_unflatten([next(rest) if own else leaf for leaf, own in pairs], self.tree)


@dataclass(frozen=True, eq=False)
class Passes:
    """A graph of both passes, and the meaning of its inputs and outputs.

    Inputs are the tensors that the module takes, then gradients of tensors that it returns; outputs
    are the tensors that it returns, then gradients of parameters and of tensors that it takes.
    """

    graph: OperatorGraph
    returned: Returned
    used: tuple[int, ...]  # numbers of returned tensors whose gradients are inputs
    parameters: tuple[str, ...]  # names of those whose gradients are outputs
    inputs: tuple[int, ...]  # numbers of taken tensors whose gradients are outputs

    @property
    def tangents(self) -> tuple[View, ...]:
        """Inputs of the graph that are gradients of returned tensors."""
        return self.graph.inputs[len(self.graph.inputs) - len(self.used) :]

    @property
    def outputs(self) -> tuple[View, ...]:
        """Outputs of the graph that the module returns; the others are gradients."""
        return self.graph.outputs[: sum(self.returned.is_tensor)]


CALLING = Advice(
    "Give what the module is called with: a batch, several tensors in a list, or by name in a dict",
    "Change that line, or train without a budget",
)


def trace_passes(
    name: str,
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    gradients: Callable[[Returned, Sequence[Tensor]], Mapping[int, Strides]],
) -> Passes:
    """Trace a module in the modes in which its parts are, for arguments with tensors in them.

    `gradients` gets the structure of the result and its tensors, without numbers, and returns the
    strides of the gradients that come in, by number of a tensor. Raises as `workbench.memory.trace`
    does, and ValueError where a traced pass is not the module's own.
    """
    leaves, tree = tree_flatten((args, dict(kwargs)))
    mode = _fake_mode(module)
    with mode:
        copied = copied_with(name, module, faked)
        fakes = [
            faked(leaf).requires_grad_(leaf.requires_grad) if isinstance(leaf, Tensor) else leaf
            for leaf in leaves
        ]
    parameters, others = dict(copied.named_parameters()), held_tensors(copied)
    untraced = partial(run_once, module, args, kwargs)
    with explained(name, copied, CALLING, untraced), learning(), mode:
        args, kwargs = tree_unflatten(fakes, tree)
        with DrawingInPlace():
            plain, is_drawing = run_watched(copied, partial(copied, *args, **kwargs))
    refuse_draws(name, is_drawing=is_drawing)
    attributes = check_unchanged(name, copied, others)
    returned, outputs = returned_by(name, plain), tensors_in(plain)
    if not (forms := gradients(returned, outputs) if returned.differentiable else {}):
        raise UserError(f"{name} returns nothing that has a gradient: there is nothing to train")
    with explained(name, copied, CALLING), mode:
        reached = _reached(outputs, forms, parameters, others, tensors_in(fakes))
    del plain, outputs
    used, tangents = tuple(reached.tangents), tuple(reached.tangents.values())
    aliases = _aliases(copied, parameters | others)
    trained = {key: parameters[key].detach() for key in reached.parameters}
    frozen = {key: p.detach() for key, p in parameters.items() if key not in trained}
    held = frozen | others
    inputs = tuple(tensor.detach() for tensor in tensors_in(fakes))
    recorder = KernelRecorder(parameters, (*inputs, *tangents), others)

    def passes(
        learnt: tuple[dict[str, Tensor], dict[int, Tensor]],
        held: dict[str, Tensor],
        inputs: tuple[Tensor, ...],
        tangents: tuple[Tensor, ...],
    ) -> list[Tensor]:
        trained, learnt_inputs = learnt
        tensors = iter([learnt_inputs.get(at, tensor) for at, tensor in enumerate(inputs)])
        filled = [next(tensors) if isinstance(leaf, Tensor) else leaf for leaf in fakes]
        args, kwargs = tree_unflatten(filled, tree)
        with DrawingInPlace():
            own = {**trained, **held}
            own = {name: own[key] for name, key in aliases.items()}
            result = functional_call(copied, own, args, kwargs, tie_weights=False)
        outputs = [
            output.clone() if at in reached.copies else output
            for at, output in enumerate(tensors_in(result))
        ]
        recorder.phase = "backward"
        gradients = torch.autograd.grad(
            [outputs[at] for at in used], [*trained.values(), *learnt_inputs.values()], tangents
        )
        recorder.phase = "forward"  # what the module writes into its buffers, seen last
        return [*outputs, *gradients]

    with explained(name, copied, CALLING, untraced), learning(), mode, recorder:
        learnt = (trained, {at: inputs[at] for at in reached.inputs})
        results = functional(passes, recorder)(torch.empty(()), learnt, held, inputs, tangents)
    check_unchanged(name, copied, others, attributes)
    strides = [tensor.stride() for part in learnt for tensor in part.values()]
    first = len(results) - len(strides)
    recorded = recorder.graph(results)
    del results
    recorder.refuse_kept(name, recorded)
    graph = _with_own_memory(recorded, dict(enumerate(strides, first)))
    return Passes(graph, returned, used, reached.parameters, reached.inputs)


def _fake_mode(module: nn.Module) -> FakeTensorMode:
    """A mode in which an LSTM's kernel gives the same results each time.

    Two of them are one tensor, which PyTorch forgets where it caches their forms.
    """
    mode = FakeTensorMode()
    if any(isinstance(part, nn.RNNBase) for part in module.modules()):
        mode.cache_enabled = False
    return mode


def _aliases(module: nn.Module, held: Mapping[str, Tensor]) -> Mapping[str, str]:
    """Name of the held tensor for each name in a part, each part once.

    PyTorch's own way with tied tensors leaves the substitutes in a part that is used twice.
    """
    keys = {id(tensor): key for key, tensor in held.items()}
    names = [
        (f"{prefix}.{name}".lstrip("."), id(tensor))
        for prefix, part in module.named_modules()
        for name, tensor in (*part._parameters.items(), *part._buffers.items())
    ]
    return {key: key for key in held} | {name: keys[at] for name, at in names if at in keys}


class _Reached(NamedTuple):
    """Gradients of returned tensors, and the parameters and inputs that they reach."""

    tangents: Mapping[int, Tensor]
    parameters: tuple[str, ...]
    inputs: tuple[int, ...]
    copies: frozenset[int]  # numbers of returned tensors that need memory of their own


def _reached(
    outputs: Sequence[Tensor],
    strides: Mapping[int, Strides],
    parameters: Mapping[str, Tensor],
    others: Mapping[str, Tensor],
    arguments: Sequence[Tensor],
) -> _Reached:
    tangents = {
        at: torch.empty_strided(outputs[at].shape, stride, dtype=outputs[at].dtype)
        for at, stride in strides.items()
    }
    trained = {key: tensor for key, tensor in parameters.items() if tensor.requires_grad}
    inputs = {at: tensor for at, tensor in enumerate(arguments) if tensor.requires_grad}
    gradients = torch.autograd.grad(
        [outputs[at] for at in strides],
        [*trained.values(), *inputs.values()],
        [*tangents.values()],
        allow_unused=True,
    )
    is_reached = iter([gradient is not None for gradient in gradients])
    return _Reached(
        tangents,
        tuple(key for key in trained if next(is_reached)),
        tuple(at for at in inputs if next(is_reached)),
        _shared(outputs, (*arguments, *parameters.values(), *others.values())),
    )


def _shared(outputs: Sequence[Tensor], others: Sequence[Tensor]) -> frozenset[int]:
    """Numbers of returned tensors in memory of the caller's, or of an earlier one.

    Those that are conjugated or negated lazily count, too.
    """
    taken = {storage_key(other) for other in others}
    shared = set[int]()
    for at, output in enumerate(outputs):
        storage = storage_key(output)
        if storage in taken or output.is_conj() or output.is_neg():
            shared.add(at)
        taken.add(storage)
    return frozenset(shared)


def returned_by(name: str, plain: Any) -> Returned:
    """Look into a module's result for tensors; refuse a result that cannot be."""
    leaves, tree = tree_flatten(plain)
    for leaf in leaves:
        if not isinstance(leaf, Tensor | None | bool | int | float | str | torch.dtype):
            raise UserError(
                f"{name} returns an object of {type(leaf).__name__}, which cannot be looked into "
                "for tensors: have it return tensors, in tuples, lists or dicts, alone"
                + (" (use_cache=False)" if "Cache" in type(leaf).__name__ else "")
                + (", or call torch.export.register_dataclass" if is_dataclass(leaf) else "")
            )
    is_tensor = tuple(isinstance(leaf, Tensor) for leaf in leaves)
    rest = tuple(None if isinstance(leaf, Tensor) else leaf for leaf in leaves)
    tensors = tensors_in(leaves)
    if not tensors:
        raise UserError(f"{name} returns no tensor; its forward gives what is to be learnt from")
    differentiable = tuple(at for at, tensor in enumerate(tensors) if tensor.requires_grad)
    return Returned(tree, rest, is_tensor, differentiable)


def _with_own_memory(graph: OperatorGraph, strides: Mapping[int, Strides]) -> OperatorGraph:
    """Copy the gradients, by number of output, that PyTorch would copy to keep them.

    It takes over a gradient as it is that is laid out as its parameter, in memory of its own.
    """
    operators, values, outputs = list(graph.operators), list(graph.values), list(graph.outputs)
    storages = 1 + max(value.storage for value in values)
    times = Counter(view.value for view in outputs)
    for at, wanted in strides.items():
        view = outputs[at]
        is_whole = view.size_bytes == graph.values[view.value].storage_bytes
        is_own = view.value not in graph.outside and times[view.value] == 1
        if is_whole and is_own and view.strides == wanted:
            continue
        own = replace(
            view, value=len(values), offset=0, strides=wanted, is_conj=False, is_neg=False
        )
        arguments: Any = ((Operand(0), wanted), {})
        copy = Operator("copy", (view,), (own,), (own,), laid_out, arguments, "backward")
        makers = [number for number, operator in enumerate(operators) if view in operator.results]
        operators.insert(max(makers, default=len(operators) - 1) + 1, copy)
        values.append(Value("operator", storages, view.size_bytes))
        storages += 1
        outputs[at] = own
    return replace(graph, operators=tuple(operators), values=tuple(values), outputs=tuple(outputs))


def laid_out(tensor: Tensor, strides: Strides) -> Tensor:
    """Copy a tensor into other strides."""
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype).copy_(tensor)
