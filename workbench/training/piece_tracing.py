"""Finds a module's graph of calls and gives each call its layer."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, fx, nn

from workbench.profiles import tracing
from workbench.profiles.chain import Recorder
from workbench.profiles.tracing import Shapes, UntraceableError
from workbench.training.piece_graph import BATCHES, Crossing, PieceGraph, names_used
from workbench.training.piece_pass import Pass


def trace_layers(module: nn.Module, shapes: Shapes, dtype: str) -> tuple[str, ...]:
    """Names of the module's layers, as in its profile; what cannot be traced is refused here."""
    name = type(module).__name__
    tracing.check_has_parameters(name, module)
    inputs = tracing.make_inputs(shapes, BATCHES[0], dtype, "meta")
    try:
        return tracing.record(name, tracing.meta_copy(name, module), inputs, backward=False).layers
    except UntraceableError as error:
        raise UntraceableError(_uncuttable(name, error.__cause__ or error)) from error


def trace_pieces(
    module: nn.Module, shapes: Shapes, dtype: str, layers: Sequence[str]
) -> PieceGraph:
    """Trace a module in the mode in which each of its parts is; errors as for `cut`."""
    name = type(module).__name__
    graph, stored = _traced(name, module)
    copied = tracing.meta_copy(name, module)
    for part, original in zip(copied.modules(), module.modules(), strict=True):
        part.training = original.training
    on_meta = {key: tensor.to("meta") for key, tensor in stored.items()}
    two, three = (
        Pass(name, graph, copied, on_meta, Recorder(dict(copied.named_parameters())))
        for _ in BATCHES
    )
    for one, batch in zip((two, three), BATCHES, strict=True):
        one.run(tracing.make_inputs(shapes, batch, dtype, "meta"))
    if two.recorder.layer_count() != len(layers):
        raise ValueError(
            f"{name} has {two.recorder.layer_count()} layers as it is set now, but {len(layers)} "
            "in training; set the modes of its parts alike: module.train() or module.eval()"
        )
    calls, output = two.layers, two.output
    inputs = tuple(
        node
        for node in graph.nodes
        if isinstance(two.values.get(node), Tensor) and node.op == "placeholder"
    )
    made = dict.fromkeys(inputs, 0) | calls
    crossings = tuple(_crossings(name, cut, made, (two, three)) for cut in range(1, len(layers)))
    used = [
        {id(tensor): key for key, tensor in tensors}
        for tensors in (copied.named_parameters(), copied.named_buffers())
    ]
    parameters, buffers = (
        tuple(
            frozenset[str]().union(
                *(names_used(node, made, copied, names) for node in calls if calls[node] == layer)
            )
            for layer in range(1, len(layers) + 1)
        )
        for names in used
    )
    return PieceGraph(
        inputs,
        output,
        calls,
        crossings,
        {node: (two.values[node], three.values[node]) for node in two.sizes},
        stored,
        frozenset(two.mutating),
        parameters,
        buffers,
    )


def _traced(name: str, module: nn.Module) -> tuple[fx.Graph, dict[str, Tensor]]:
    """Graph of a module's calls, and tensors that tracing left at the module, taken from it."""
    before = set(vars(module))
    try:
        graph = fx.Tracer().trace(module)
    except Exception as error:
        raise UntraceableError(_uncuttable(name, error)) from error
    finally:
        left = {key: vars(module).pop(key) for key in set(vars(module)) - before}
    return graph, left


def _uncuttable(name: str, error: BaseException) -> str:
    return (
        f"{name} cannot be cut into layers that run by themselves: {type(error).__name__}: "
        f"{str(error).rstrip('.')}. Its forward may branch on shapes read from its parts, not on "
        "its inputs or their numbers; torch.fx.symbolic_trace(module) shows where it stops"
    )


def _crossings(
    name: str, cut: int, made: dict[fx.Node, int], passes: tuple[Pass, Pass]
) -> tuple[Crossing, ...]:
    """What layers up to `cut` make and later ones need, once where several calls give the same."""
    output, (two, three) = passes[0].output, (one.values for one in passes)
    same: dict[tuple[object, ...], list[fx.Node]] = {}
    for node, layer in made.items():
        users = [made.get(user, 0) for user in node.users if user is not output]
        if layer > cut or (max(users, default=0) <= cut and output not in node.users):
            continue
        tensor = two[node]
        if not isinstance(tensor, Tensor):
            raise ValueError(
                f"{name} cannot be cut behind layer {cut}: {node.name!r} gives "
                f"{type(tensor).__name__} across it, where a tensor could be sent"
            )
        if tensor.shape != (BATCHES[0], *three[node].shape[1:]) or len(three[node]) != BATCHES[1]:
            raise ValueError(
                f"{name} cannot be cut behind layer {cut}: {node.name!r} of shape "
                f"{tuple(tensor.shape)} for {BATCHES[0]} samples does not have these in its first "
                "dimension, so that they cannot be shared out"
            )
        storage = tensor.untyped_storage()._cdata
        key = (storage, tensor.storage_offset(), tensor.shape, tensor.stride())
        same.setdefault(key, []).append(node)
    return tuple(
        Crossing(tuple(nodes), two[nodes[0]].numel() * two[nodes[0]].element_size() // BATCHES[0])
        for nodes in same.values()
    )
