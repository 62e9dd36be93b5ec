"""Records results in the form in which a CPU's kernels give them, not PyTorch's shape rules."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from workbench.profiles.graph import OperatorGraph
from workbench.profiles.private import storage_key, unset_fake_temporarily
from workbench.profiles.recorder import Recorder, takes_pivots, tensors_in
from workbench.utils.checks import UserError


class KernelRecorder(Recorder):  # type: ignore[no-untyped-call]
    """Records results in the form in which a CPU's kernels give them.

    PyTorch's forms for shapes alone are others where operands are not contiguous, and so would be
    the order in which numbers are drawn and added up. What an LSTM's kernel keeps for its backward
    pass has a size that no shape tells. Such operators are run once, on zeros, to see.
    """

    def __init__(
        self,
        parameters: Mapping[str, torch.nn.Parameter],
        inputs: Sequence[Tensor],
        others: Mapping[str, Tensor],
    ) -> None:
        super().__init__(parameters, inputs, others=others)
        self._forms: dict[
            str, list[Any]
        ] = {}  # forms of results, by operator and forms of operands

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

    def _called(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        out = func(*args, **kwargs)
        operands, results = tensors_in((args, kwargs)), tensors_in(out)
        storages = {storage_key(tensor) for tensor in operands}
        is_new = not any(storage_key(tensor) in storages for tensor in results)
        is_plain = all(tensor.is_contiguous() for tensor in operands) and func is not _LSTM
        if is_plain or not is_new or not results or func._schema.is_mutable:
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
        constants = {at for at in read if graph.values[at].origin == "constant"}
        unnamed = {at for at in constants if not graph.values[at].name}
        storages = [storage for storage, at in self._held.values() if at not in graph.outside]
        if _are_held(storages):
            gc.collect()
        if unnamed - graph.literals.keys() or _are_held(storages):
            raise UserError(
                f"{name} keeps a tensor of its forward pass, in a list, a cache or another object, "
                "which a traced pass does not do: return it, or keep it in a buffer and write it "
                "in place, as in self.seen.copy_(…); empty what keeps it, since it has no numbers"
            )

    def _node(self) -> None:
        """None: the module may be traced while autograd runs another one's backward pass."""


def _are_held(storages: Sequence[StorageWeakRef]) -> bool:
    return not all(storage.expired() for storage in storages)  # type: ignore[no-untyped-call]


def _form(tensor: Tensor) -> tuple[Any, ...]:
    return tuple(tensor.shape), tensor.stride(), tensor.dtype


def _formed(fake: Any, form: tuple[Any, ...] | None) -> Any:
    if not isinstance(fake, Tensor) or form is None or _form(fake) == form:
        return fake
    return torch.empty_strided(*form[:2], dtype=form[2], device="cpu")


def _real_forms(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """Forms of an operator's results, run on zeros, or on ones."""
    number = int(takes_pivots(func))

    def filled(fake: Tensor) -> Tensor:
        return torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype).fill_(number)

    with unset_fake_temporarily(), torch.random.fork_rng(devices=[]):
        args, kwargs = tree_map_only(Tensor, filled, (args, kwargs))
        leaves, _ = tree_flatten((lstm_layer if func is _LSTM else func)(*args, **kwargs))
        return [_form(leaf) if isinstance(leaf, Tensor) else None for leaf in leaves]


_LSTM = torch.ops.aten.mkldnn_rnn_layer.default


def lstm_layer(*args: Any) -> tuple[Tensor, ...]:
    """Run a layer of an LSTM by a kernel that keeps what its gradient needs."""
    with torch.enable_grad():
        results: tuple[Tensor, ...] = _LSTM(*args)
    return results
