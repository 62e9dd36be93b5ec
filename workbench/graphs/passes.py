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

import gc
from collections import Counter, deque
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, is_dataclass, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import TreeSpec, tree_flatten, tree_map_only, tree_unflatten

from workbench.graphs.functional import DrawingInPlace, faked, functional
from workbench.graphs.generators import parts_that_draw
from workbench.graphs.graph import Operand, Operator, OperatorGraph, Value, View
from workbench.graphs.private import FakeTensorMode, storage_key, unset_fake_temporarily
from workbench.graphs.recorder import Recorder, takes_pivots, tensors_in
from workbench.graphs.recording import (
    Advice,
    copied_with,
    explained,
    held_tensors,
    learning,
    run_once,
)
from workbench.utils.checks import UserError

Strides = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Returned:
    """What a module returns: leaves of a tree, with None in the place of tensors."""

    tree: TreeSpec
    leaves: tuple[Any, ...]
    is_tensor: tuple[bool, ...]
    differentiable: tuple[int, ...]  # of its tensors, those that have a gradient

    def filled(self, tensors: Sequence[Tensor]) -> Any:
        """The tree with tensors in their places."""
        rest = iter(tensors)
        pairs = zip(self.leaves, self.is_tensor, strict=True)
        return tree_unflatten([next(rest) if own else leaf for leaf, own in pairs], self.tree)


@dataclass(frozen=True, eq=False)
class Passes:
    """A graph of both passes.

    Its inputs are tensors given, and gradients of what is returned; its outputs tensors returned,
    and gradients of what is learnt.
    """

    graph: OperatorGraph
    returned: Returned
    used: tuple[int, ...]  # tensors returned whose gradients are inputs, by number
    parameters: tuple[str, ...]  # that it gives gradients of
    inputs: tuple[int, ...]  # tensors given that it gives gradients of, by number

    @property
    def tangents(self) -> tuple[View, ...]:
        """Inputs of the graph that are gradients of what is returned."""
        return self.graph.inputs[len(self.graph.inputs) - len(self.used) :]

    @property
    def outputs(self) -> tuple[View, ...]:
        """Outputs of the graph that are returned; the others are gradients."""
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

    `gradients` says, of what is returned and its tensors' forms, which have gradients that come in,
    by number, and their strides. Raises as `workbench.graphs.trace` does, and ValueError where a
    traced pass is not the module's own.
    """
    leaves, tree = tree_flatten((args, dict(kwargs)))
    mode = FakeTensorMode()
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
            plain, drawing = parts_that_draw(copied, partial(copied, *args, **kwargs))
    _refuse_draws(name, drawing)
    contents = _check_written(name, copied, others)
    returned, outputs = returned_by(name, plain), tensors_in(plain)
    if not (forms := gradients(returned, outputs) if returned.differentiable else {}):
        raise UserError(f"{name} returns nothing that has a gradient: there is nothing to train")
    with explained(name, copied, CALLING), mode:
        seen = _seen(outputs, forms, parameters, others, tensors_in(fakes))
    del plain, outputs
    used, tangents = tuple(seen.tangents), tuple(seen.tangents.values())
    aliases = _aliases(copied, parameters | others)
    trained = {key: parameters[key].detach() for key in seen.parameters}
    held = {key: one.detach() for key, one in parameters.items() if key not in trained} | others
    given = tuple(tensor.detach() for tensor in tensors_in(fakes))
    recorder = _AsKernelsDo(parameters, (*given, *tangents), others=others)

    def passes(
        learnt: tuple[dict[str, Tensor], dict[int, Tensor]],
        held: dict[str, Tensor],
        given: tuple[Tensor, ...],
        tangents: tuple[Tensor, ...],
    ) -> list[Tensor]:
        trained, of_inputs = learnt
        tensors = iter([of_inputs.get(at, tensor) for at, tensor in enumerate(given)])
        filled = [next(tensors) if isinstance(leaf, Tensor) else leaf for leaf in fakes]
        args, kwargs = tree_unflatten(filled, tree)
        with DrawingInPlace():
            own = {**trained, **held}
            own = {name: own[key] for name, key in aliases.items()}
            result = functional_call(copied, own, args, kwargs, tie_weights=False)
        outputs = tensors_in(result)
        outputs = [one.clone() if at in seen.copies else one for at, one in enumerate(outputs)]
        recorder.phase = "backward"
        found = torch.autograd.grad(
            [outputs[at] for at in used], [*trained.values(), *of_inputs.values()], tangents
        )
        recorder.phase = "forward"  # what the module writes into its buffers, seen last
        return [*outputs, *found]

    with explained(name, copied, CALLING, untraced), learning(), mode, recorder:
        learnt = (trained, {at: given[at] for at in seen.inputs})
        results = functional(passes, recorder)(torch.empty(()), learnt, held, given, tangents)
    _check_written(name, copied, others, contents)
    strides = [one.stride() for one in (*trained.values(), *(given[at] for at in seen.inputs))]
    first = len(results) - len(strides)
    recorded = recorder.graph(results)
    del results
    recorder.refuse_kept(name, recorded)
    graph = _with_own_memory(recorded, dict(enumerate(strides, first)))
    return Passes(graph, returned, used, seen.parameters, seen.inputs)


def _aliases(module: nn.Module, held: Mapping[str, Tensor]) -> Mapping[str, str]:
    """By name in a part, each part once: under which name a tensor is held.

    PyTorch's own way with tied tensors leaves the substitutes in a part that is used twice.
    """
    keys = {id(tensor): key for key, tensor in held.items()}
    names = [
        (f"{prefix}.{name}".lstrip("."), id(tensor))
        for prefix, part in module.named_modules()
        for name, tensor in (*part._parameters.items(), *part._buffers.items())
    ]
    return {key: key for key in held} | {name: keys[at] for name, at in names if at in keys}


class _AsKernelsDo(Recorder):  # type: ignore[no-untyped-call]
    """Records results in the form in which a CPU's kernels give them.

    PyTorch's forms for shapes alone are others where operands are not contiguous, and so would be
    the order in which numbers are drawn and added up. What an LSTM's kernel keeps for its backward
    pass has a size that no shape tells. Such operators are run once, on zeros, to see.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if (kwargs or {}).get("generator") is not None:
            raise UserError("it draws from a torch.Generator of its own: draw from PyTorch's")
        out = super().__torch_dispatch__(func, types, args, kwargs)
        if func is _LSTM:
            self._hold(out[3], "operator")
            layer, view = self.operators[-1], self.view(out[3])
            results, makes = (*layer.results, view), (*layer.makes, view)
            self.operators[-1] = replace(layer, function=lstm_layer, results=results, makes=makes)
        return out

    def _node(self) -> None:
        """None: the module may be traced while autograd runs another one's backward pass."""

    def _called(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        out = func(*args, **kwargs)
        given, made = tensors_in((args, kwargs)), tensors_in(out)
        held = {storage_key(tensor) for tensor in given}
        is_new = not any(storage_key(tensor) in held for tensor in made)
        plain = all(tensor.is_contiguous() for tensor in given) and func is not _LSTM
        if plain or not is_new or not made or func._schema.is_mutable:
            return out
        kind = repr((func, tree_map_only(Tensor, _form, (args, kwargs))))
        if kind not in self._forms:
            self._forms[kind] = _real_forms(func, args, kwargs)
        leaves, tree = tree_flatten(out)
        pairs = zip(leaves, self._forms[kind], strict=True)
        return tree_unflatten([_formed(leaf, form) for leaf, form in pairs], tree)

    def refuse_kept(self, name: str, graph: OperatorGraph) -> None:
        """Refuse a pass of which a tensor is still held, or that reads one of an earlier pass."""
        read = {view.value for operator in graph.operators for view in operator.reads}
        own = {at for at in read if graph.values[at].origin == "constant"}
        reads_kept = any(not graph.values[at].name for at in own - graph.written_down.keys())
        kept = [one for one, at in self._held.values() if at not in graph.outside]
        if _held_still(kept):
            gc.collect()
        if reads_kept or _held_still(kept):
            raise UserError(
                f"{name} keeps a tensor of its forward pass, in a list, a cache or another object, "
                "which a traced pass does not do: return it, or keep it in a buffer and write it "
                "in place, as in self.seen.copy_(…); empty what keeps it, since it has no numbers"
            )

    @cached_property
    def _forms(self) -> dict[str, list[Any]]:
        return {}


def _held_still(storages: Sequence[StorageWeakRef]) -> bool:
    return not all(one.expired() for one in storages)  # type: ignore[no-untyped-call]


def _form(tensor: Tensor) -> tuple[Any, ...]:
    return tuple(tensor.shape), tensor.stride(), tensor.dtype


def _formed(fake: Any, form: tuple[Any, ...] | None) -> Any:
    if not isinstance(fake, Tensor) or form is None or _form(fake) == form:
        return fake
    return torch.empty_strided(*form[:2], dtype=form[2], device="cpu")


def _real_forms(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """Forms of what an operator returns that runs on zeros, or on ones."""
    number = int(takes_pivots(func))
    with unset_fake_temporarily(), torch.random.fork_rng(devices=[]):
        real = tree_map_only(
            Tensor,
            lambda one: torch.empty_strided(one.shape, one.stride(), dtype=one.dtype).fill_(number),
            (args, kwargs),
        )
        out = (lstm_layer if func is _LSTM else func)(*real[0], **real[1])
        return [_form(one) if isinstance(one, Tensor) else None for one in tree_flatten(out)[0]]


_LSTM = torch.ops.aten.mkldnn_rnn_layer.default


def lstm_layer(*args: Any) -> tuple[Tensor, ...]:
    """A layer of an LSTM, and what its kernel keeps: nothing, where gradients are off."""
    with torch.enable_grad():
        found: tuple[Tensor, ...] = _LSTM(*args)
    return found


def _check_written(
    name: str,
    module: nn.Module,
    others: Mapping[str, Tensor],
    contents: Mapping[str, Any] = MappingProxyType({}),
) -> Mapping[str, Any]:
    """Refuse a forward pass that leaves something new behind, as a plan would leave it once.

    What it wrote down the first time, and not again, is a copy of what it knows.
    """
    now = held_tensors(module)
    changed = [key for key, tensor in now.items() if others.get(key) is not tensor]
    known = {
        f"{prefix}.{key}".lstrip("."): _content(value)
        for prefix, part in module.named_modules()
        for key, value in vars(part).items()
        if key != "_flat_weights"  # in which a recurrent layer lists those that it is called with
    }
    changed += [key for key, value in known.items() if contents.get(key, value) != value]
    if changed:
        raise UserError(
            f"{name} changes {changed[0]!r} in its forward pass, which a traced pass does not do: "
            "return it, or keep it in a buffer and write it in place, as in self.seen.copy_(…)"
        )
    return known


def _refuse_draws(name: str, parts: Sequence[str]) -> None:
    if parts:
        where = f"in {parts[0]!r}" if parts[0] else "in its forward"
        raise UserError(
            f"{name} draws random numbers of Python or NumPy {where}, and a plan would repeat what "
            "is drawn once: draw them by PyTorch, as in torch.rand(()), or train without a budget"
        )


def _content(value: Any, met: frozenset[int] = frozenset()) -> Hashable:
    """Types, numbers and texts in a value, down through containers and attributes of objects."""
    if isinstance(value, int | float | complex | str | bytes | None):
        return type(value), repr(value)  # 1, 1.0 and True are equal; nan is not nan
    if isinstance(value, Tensor | nn.Module) or id(value) in met:
        return (type(value),)
    inside: Hashable
    within = partial(_content, met=met | {id(value)})
    if isinstance(value, np.ndarray):
        inside = value.shape, value.tobytes()
    elif isinstance(value, Mapping):
        inside = tuple((within(key), within(one)) for key, one in value.items())
    elif isinstance(value, Set):
        inside = frozenset(map(within, value))
    elif isinstance(value, list | tuple | deque):
        inside = tuple(map(within, value))
    else:
        inside = within(getattr(value, "__dict__", None))
    return type(value), inside


class _Seen(NamedTuple):
    """What a plain run shows: gradients that come in, and of what some go out."""

    tangents: Mapping[int, Tensor]
    parameters: tuple[str, ...]
    inputs: tuple[int, ...]
    copies: frozenset[int]  # returned tensors, by number, that need memory of their own


def _seen(
    outputs: Sequence[Tensor],
    strides: Mapping[int, Strides],
    parameters: Mapping[str, Tensor],
    others: Mapping[str, Tensor],
    given: Sequence[Tensor],
) -> _Seen:
    tangents = {
        at: torch.empty_strided(outputs[at].shape, stride, dtype=outputs[at].dtype)
        for at, stride in strides.items()
    }
    wanted = {key: one for key, one in parameters.items() if one.requires_grad}
    inputs = {at: one for at, one in enumerate(given) if one.requires_grad}
    found = torch.autograd.grad(
        [outputs[at] for at in strides],
        [*wanted.values(), *inputs.values()],
        [*tangents.values()],
        allow_unused=True,
    )
    reached = iter([gradient is not None for gradient in found])
    return _Seen(
        tangents,
        tuple(key for key in wanted if next(reached)),
        tuple(at for at in inputs if next(reached)),
        _not_alone(outputs, (*given, *parameters.values(), *others.values())),
    )


def _with_own_memory(graph: OperatorGraph, strides: Mapping[int, Strides]) -> OperatorGraph:
    """The graph with copies of those gradients that PyTorch would copy, to keep them.

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
        makers = [n for n, one in enumerate(operators) if view in one.makes or view in one.results]
        operators.insert(max(makers, default=len(operators) - 1) + 1, copy)
        values.append(Value("operator", storages, view.size_bytes))
        storages += 1
        outputs[at] = own
    return replace(graph, operators=tuple(operators), values=tuple(values), outputs=tuple(outputs))


def laid_out(tensor: Tensor, strides: Strides) -> Tensor:
    """A copy with these strides."""
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype).copy_(tensor)


def returned_by(name: str, plain: Any) -> Returned:
    """What a module returns, looked into for tensors; refuse what cannot be."""
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
    differentiable = tuple(at for at, one in enumerate(tensors) if one.requires_grad)
    return Returned(tree, rest, is_tensor, differentiable)


def _not_alone(outputs: Sequence[Tensor], others: Sequence[Tensor]) -> frozenset[int]:
    """Of what is returned: what lies in memory of the caller's, or of an earlier tensor.

    What is conjugated or negated lazily gets memory of its own, too.
    """
    taken = {storage_key(other) for other in others}
    found = set[int]()
    for at, output in enumerate(outputs):
        storage = storage_key(output)
        if storage in taken or output.is_conj() or output.is_neg():
            found.add(at)
        taken.add(storage)
    return frozenset(found)
