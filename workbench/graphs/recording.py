"""Runs a copy of a module once under a `Recorder`, and says in the user's terms what fails."""

from __future__ import annotations

import copy
import logging
import pickle
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from traceback import walk_tb
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from workbench.graphs.attention import MULTI_HEAD, attend, multi_head
from workbench.graphs.graph import OperatorGraph, UntraceableError
from workbench.graphs.inputs import arguments
from workbench.graphs.private import FAKE_LOG, NormBase, said_to_be_compiled
from workbench.graphs.recorder import Recorder, tensors_in
from workbench.utils.checks import UserError

T = TypeVar("T")


def record(
    name: str,
    module: nn.Module,
    inputs: tuple[Tensor, ...],
    *,
    names: Sequence[str],
    by_modules: bool = False,
    backward: bool = False,
) -> OperatorGraph:
    """Run `module` forward (and backward) on `inputs` once; return its graph.

    The module is used as it is and keeps gradients: give it a copy.
    """
    recorder = Recorder(dict(module.named_parameters()), inputs, names=names, by_modules=by_modules)
    outputs = run(name, module, inputs, recorder, _Attention(recorder), names=names)
    if backward:
        recorder.in_backward = True
        try:
            with recorder:
                run_backward(outputs)
        except RuntimeError as error:
            raise UserError(f"the backward pass of {name} fails: {error}") from error
    return recorder.graph(outputs)


class _Attention(TorchFunctionMode):
    """Notes which operators do one call of attention: they are never on two sides of a cut."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is MULTI_HEAD:
            result = multi_head(self._call, args, kwargs or {})
            if result is not None:
                return result
        return self._call(func, *args, **(kwargs or {}))

    def _call(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        first = len(self._recorder.operators)
        result = func(*args, **kwargs)
        if func in (attend, functional.scaled_dot_product_attention):
            self._recorder.whole.append(range(first, len(self._recorder.operators)))
        return result


def run(
    name: str,
    module: nn.Module,
    inputs: tuple[Tensor, ...],
    recorder: Recorder,
    calls: AbstractContextManager[object] | None = None,
    *,
    names: Sequence[str],
) -> list[Tensor]:
    """Run `module` forward under a recorder, and one of its calls if asked; what it returns."""
    modules = recorder.modules
    args, kwargs = arguments(names, inputs)
    hooks = nullcontext() if modules is None else layers_by_module(module, modules.append)
    # What the module's code makes without a device is where its inputs are.
    home = torch.device(inputs[0].device if inputs else "cpu")
    with learning(), home, recorder, explained(name, module), hooks, calls or nullcontext():
        outputs = tensors_in(module(*args, **kwargs))
    check_returned(name, outputs)
    return outputs


def check_returned(name: str, outputs: Sequence[Tensor]) -> None:
    """Refuse a module that returns no tensor."""
    if not outputs:
        raise UserError(f"{name} returns no tensor; its forward gives what is to be learnt from")


def meta_copy(name: str, module: nn.Module) -> nn.Module:
    """Copy of a module in training mode, with every tensor of it on the meta device."""
    check_has_parameters(name, module)
    return copied_with(name, module, partial(torch.empty_like, device="meta")).train()


def copied_with(name: str, module: nn.Module, replacing: Callable[[Tensor], Tensor]) -> nn.Module:
    """Copy of a module with another tensor in the place of each that it or a part of it holds."""
    check_not_compiled(name, module)
    if isinstance(module, nn.DataParallel | nn.parallel.DistributedDataParallel):
        raise UserError(f"{name} spreads a module over devices: give that module, model.module")
    memo: dict[int, Any] = {}
    for part in module.modules():
        for value in (*part._parameters.values(), *part._buffers.values(), *vars(part).values()):
            if isinstance(value, Tensor) and id(value) not in memo:
                other = replacing(value)
                memo[id(value)] = (
                    nn.Parameter(other, requires_grad=value.requires_grad)
                    if isinstance(value, nn.Parameter)
                    else other
                )
            elif isinstance(value, torch.Generator):
                memo[id(value)] = value
    return _copied(name, module, memo)


def real_copy(name: str, module: nn.Module, device: str) -> nn.Module:
    """Copy of a module in training mode on `device`, with its weights."""
    check_not_compiled(name, module)
    check_has_parameters(name, module)
    if any(tensor.is_meta for tensor in (*module.parameters(), *module.buffers())):
        raise UserError(f"{name} is on the meta device and holds no weights to compute with")
    return _copied(name, module, {}).train().to(device)


def check_not_compiled(name: str, module: nn.Module) -> None:
    """Refuse scripted and traced parts, whose operators cannot be seen."""
    for key, part in module.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            raise UserError(
                f"{name} cannot be traced: {f'its part {key!r}' if key else 'it'} is compiled by "
                "torch.jit;\ngive the module that it was made from"
            )


def check_has_parameters(name: str, module: nn.Module) -> None:
    """Refuse a module without parameters to train, or whose parameters have no shape yet."""
    parameters = list(module.parameters())
    if not parameters:
        raise UserError(f"{name} has no parameters, so it has no layers to plan for")
    if not any(parameter.requires_grad for parameter in parameters):
        raise UserError(
            f"every parameter of {name} is frozen, so there is nothing to train; call "
            "requires_grad_(True) on the parts that are to learn, such as its last layer"
        )
    if any(isinstance(parameter, nn.UninitializedParameter) for parameter in parameters):
        raise UserError(f"{name} has lazy layers without a shape yet; run it once on an input")


def held_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Buffers and other tensors that a module and its parts hold, by name."""
    held = dict(module.named_buffers())
    for prefix, part in module.named_modules():
        for key, attribute in vars(part).items():
            if isinstance(attribute, Tensor):
                held[f"{prefix}.{key}".lstrip(".")] = attribute
    return held


def unfreeze(module: nn.Module) -> None:
    """Let every parameter learn that can."""
    for parameter in module.parameters():
        parameter.requires_grad_(parameter.is_floating_point() or parameter.is_complex())


def _copied(name: str, module: nn.Module, memo: dict[int, Any]) -> nn.Module:
    try:
        with _quiet():
            return copy.deepcopy(module, memo)
    except (TypeError, RuntimeError, pickle.PickleError) as error:
        inside = [
            f"{prefix}.{key}".lstrip(".")
            for prefix, part in module.named_modules()
            for key, value in vars(part).items()
            if key not in vars(nn.Module())
            and any(id(tensor) not in memo for tensor in tensors_in(value))
        ]
        why = f"{inside[0]!r} has a tensor: keep it in a buffer instead" if inside else error
        raise UserError(
            f"{name} cannot be copied, and the original is not touched: {why}"
        ) from error


def run_backward(outputs: Sequence[Tensor]) -> None:
    """Run the backward pass of all outputs that have one, from gradients of one."""
    learnt = [output for output in outputs if output.requires_grad]
    if learnt:
        torch.autograd.backward(learnt, [torch.ones_like(output) for output in learnt])


@contextmanager
def layers_by_module(module: nn.Module, enter: Callable[[str], object]) -> Iterator[None]:
    """Call ``enter(name)`` when a module that bears weights is called for the first time.

    Normalisations start no layer but belong to the one before; nor does a module called again.
    """
    names = {part: name or type(part).__name__ for name, part in module.named_modules()}
    seen: set[nn.Module] = set()

    def before(part: nn.Module, _: object) -> None:
        if part not in seen:
            seen.add(part)
            enter(names[part])

    handles = [part.register_forward_pre_hook(before) for part in names if _starts_layer(part)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _starts_layer(part: nn.Module) -> bool:
    norms = (NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.PReLU)
    return not isinstance(part, norms) and any(p is not None for p in part._parameters.values())


@contextmanager
def learning() -> Iterator[None]:
    """Record gradients, whatever the caller's setting."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


def as_compiled(trace: Callable[[], T]) -> T:
    """Trace a module; if it asks for numbers, again as `torch.compile` does.

    Code that looks into masks, to leave out those that hide nothing, does not do so when it is
    asked whether it is compiled. PyTorch's encoders and decoders look whether a mask is causal; in
    the graph they use it as it is.
    """
    try:
        return trace()
    except UntraceableError as error:
        try:
            with said_to_be_compiled():
                return trace()
        except UserError:
            raise error from error.__cause__


class Advice(NamedTuple):
    """Advice about inputs that do not fit, and about a module that cannot be traced."""

    inputs: str
    module: str


PROFILING = Advice(
    "Give input_shape without the batch dimension, and input_dtype if it is not float32",
    "Profile it by the order of its modules instead: "
    'profile_model(…, by="modules") and measure_layer_times(…, by="modules"), '
    "or `workbench profile --by modules`, run it for real",
)


@contextmanager
def explained(
    name: str,
    module: nn.Module,
    advice: Advice = PROFILING,
    untraced: Callable[[], object] | None = None,
) -> Iterator[None]:
    """Turn an error out of the module's forward into one that says where and what to do.

    `untraced` calls the module on the same inputs without a trace: where that works, the input is
    not to blame.
    """
    with _quiet():
        try:
            yield
        except UserError as error:  # it says itself what is wrong
            raise UntraceableError(
                f"{name} cannot be traced: {_where(module, error)}{error}", advice.module
            ) from error
        except Exception as error:
            why = f"{type(error).__name__}: {str(error).rstrip('.')}"
            reason = next((words for pattern, words in _REASONS if pattern.search(why)), "")
            if reason or (untraced is not None and _works(untraced)):
                raise UntraceableError(
                    f"{name} cannot be traced: {_where(module, error)}{reason or why}",
                    advice.module,
                ) from error
            raise UserError(
                f"the input does not fit {name}: {_where(module, error)}{why}. {advice.inputs}"
            ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep back PyTorch's own tracebacks of what is explained."""
    log = logging.getLogger(FAKE_LOG)
    was_quiet, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = was_quiet


_REASONS = [
    (re.compile(pattern, re.IGNORECASE), words)
    for pattern, words in {
        "DynamicOutputShape": "the shape of a result depends on the numbers in a tensor, as for "
        "x[x > 0], unique and packed sequences",
        "convert all Tensors to FakeTensors": "it reads a tensor that is neither given nor the "
        "module's, as a global one: keep it in a buffer",
        r"\bmeta\b|DataDependent|doesn't have storage|unallocated storage|_local_scalar_dense|"
        r"numpy\(\) is not supported|data pointer|data_ptr|FakeTensor": "its control flow depends "
        "on data, or it leaves PyTorch, as by if, .item() and .numpy(); choose by torch.where",
        "setup_context": "a torch.autograd.Function has no setup_context: define it beside forward",
        "saved tensor hooks|use_reentrant": "it computes parts again itself, as "
        "torch.utils.checkpoint does: switch that off, since a plan chooses what is computed again",
        "functorch transform|does not require grad": "it asks for gradients itself, as by "
        "requires_grad_, retain_grad and torch.autograd.grad",
        "Sparse": "a tensor or a gradient is sparse, as of nn.Embedding(sparse=True)",
        "as_strided.* is non-compositional": "it writes in place into a part of "
        "complex numbers, as x.imag.relu_() does: write the result elsewhere",
        "leaf Variable that requires grad": "it writes into a parameter, as "
        "nn.Embedding(max_norm=…) does",
    }.items()
]
"""Patterns of PyTorch's messages where a trace cannot follow, and reasons in the user's words."""


def run_once(module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Run a copy of a module as it is; the random generator is left as it was."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        copy.deepcopy(module)(*args, **kwargs)


def _works(call: Callable[[], object]) -> bool:
    try:
        call()
    except Exception:  # whatever a user's module raises
        return False
    return True


def _where(module: nn.Module, error: Exception) -> str:
    """The part and the user's line that an error comes from, where it has any."""
    names = {part: part_name for part_name, part in module.named_modules()}
    frames = (frame.f_locals.get("self") for frame, _ in walk_tb(error.__traceback__))
    parts = [part for part in frames if isinstance(part, nn.Module) and part in names]
    if not parts:
        return ""
    part = parts[-1]
    where = f"in {names[part]!r}" if names[part] else "in its forward"
    if names[part] and not list(part.children()):
        where = f"at layer {names[part]!r} ({part})"
    return f"{where}{_line(error)}, "


def _line(error: Exception) -> str:
    """File and line of the user's code that an error comes from, if there is any."""
    ours = (Path(torch.__file__).parent, Path(__file__).parent)
    lines = [
        f" ({Path(frame.f_code.co_filename).name}, line {line})"
        for frame, line in walk_tb(error.__traceback__)
        if not any(Path(frame.f_code.co_filename).is_relative_to(folder) for folder in ours)
    ]
    return lines[-1] if lines else ""
