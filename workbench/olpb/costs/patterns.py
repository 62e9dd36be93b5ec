"""Patterns of Jacobians' entries, by arithmetic: no Jacobian is built.

Numbers of a value are channels at positions; axes of positions are samples and pixels. A Jacobian's
block, from a number made to the numbers read, has an interval of positions along each axis, and
either all channels or the same one. A convolution's row has k * k * C entries so, less what its
padding covers; products of blocks compose intervals, and receptive fields grow until all is dense.

Exact for convolutions, linear layers, average poolings and smooth activations in chains. Otherwise
an upper bound: a ReLU or a maximum of a window passes fewer gradients, branches that join are as
wide as the widest, windows with gaps count whole, and an operator without a rule here is dense.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workbench.olpb.algorithms.levels import Flow, Group
from workbench.profiles.graph import Operator, OperatorGraph, View

Places = NDArray[np.int64]
Interval = tuple[Places, Places]

_SMOOTH = "add sub mul div neg exp log sqrt rsqrt pow tanh sigmoid gelu silu softplus erf"
_BROKEN = "relu elu leaky_relu hardtanh hardswish hardsigmoid clamp abs threshold where"
ELEMENTWISE = frozenset([*_SMOOTH.split(), *_BROKEN.split(), "clone", "native_dropout"])
"""Operators that compute each number from those at the same place."""
AXES = 4


class Form(NamedTuple):
    """A value's numbers: channels by part, joined ones apart, and positions along each axis."""

    parts: tuple[int, ...]
    axes: tuple[int, ...]

    @property
    def numbers(self) -> int:
        """Their count."""
        return sum(self.parts) * prod(self.axes)


@dataclass(frozen=True, eq=False)
class Block:
    """Entries of J^T between a part of a value that is made and one of a value that is read.

    `reach`, by axis: for each position made, the first and last position read.
    """

    made: int  # channels
    read: int
    dense: bool  # all channels of each other, or each its own
    reach: tuple[Interval, ...]

    @property
    def nonzeros(self) -> int:
        """Entries."""
        channels = self.made * self.read if self.dense else min(self.made, self.read)
        return channels * prod(int((high - low + 1).sum()) for low, high in self.reach)

    def after(self, later: Block) -> Block:
        """Entries of the product with a block that goes on from what this one reads."""
        reach = tuple(
            (next_low[low], next_high[high])
            for (low, high), (next_low, next_high) in zip(self.reach, later.reach, strict=True)
        )
        return Block(self.made, later.read, self.dense or later.dense, reach)

    def product_flops(self, later: Block) -> int:
        """Floating-point operations of that product: two for each pair of entries that meet."""
        through = [self.read]  # channels between that both blocks have entries at
        through += [] if self.dense else [self.made]
        through += [] if later.dense else [later.read]
        ends = (self.made if self.dense else 1) * (later.read if later.dense else 1)
        meeting = 1
        for (low, high), (next_low, next_high) in zip(self.reach, later.reach, strict=True):
            count = len(next_low)
            covered = np.bincount(low, minlength=count + 1)
            covered -= np.bincount(high + 1, minlength=count + 1)
            meeting *= int(covered.cumsum()[:-1] @ (next_high - next_low + 1))
        return 2 * ends * min(through) * meeting

    def joined(self, other: Block | None) -> Block:
        """Entries of the sum with a block between the same parts."""
        if other is None:
            return self
        reach = tuple(
            (np.minimum(low, other_low), np.maximum(high, other_high))
            for (low, high), (other_low, other_high) in zip(self.reach, other.reach, strict=True)
        )
        return Block(self.made, self.read, self.dense or other.dense, reach)


Part = tuple[int, int]
"""A value and which part of its channels."""


@dataclass(frozen=True, eq=False)
class Pattern:
    """Entries of a group's J^T, or of several groups': blocks by what is read and by what is made.

    `rows` are the numbers on the boundary towards the input.
    """

    blocks: Mapping[Part, Mapping[Part, Block]]
    rows: int

    @property
    def nonzeros(self) -> int:
        """Entries."""
        return sum(block.nonzeros for row in self.blocks.values() for block in row.values())

    def before(self, later: Pattern) -> tuple[Pattern, int]:
        """The product with the J^T of what comes next towards the input, and its FLOPs."""
        blocks: dict[Part, dict[Part, Block]] = {}
        flops = 0
        for read, row in later.blocks.items():
            for middle, second in row.items():
                for made, first in self.blocks.get(middle, {}).items():
                    flops += first.product_flops(second)
                    into = blocks.setdefault(read, {})
                    into[made] = first.after(second).joined(into.get(made))
        return Pattern(blocks, later.rows), flops


@dataclass(frozen=True, eq=False)
class Passes:
    """Operators of a flow, in its order, and the forms of the values between them."""

    flow: Flow
    operators: tuple[Operator, ...]
    forms: Mapping[int, Form]


def passes(graph: OperatorGraph, flow: Flow) -> Passes:
    """Find the operators of a flow in its graph, and a form for each value that they make."""
    by_number = {
        flow.makers[view.value]: operator
        for operator in graph.operators
        for view in operator.makes
        if view.value in flow.makers
    }
    operators = tuple(by_number[number] for number in range(len(flow.names)))
    forms: dict[int, Form] = {}
    for operator, sources in zip(operators, flow.sources, strict=True):
        read = [view for view in operator.reads if view.value in sources]
        for view in operator.makes:
            forms[view.value] = _form(operator, view, read, forms)
    return Passes(flow, operators, forms)


def group_pattern(passes: Passes, group: Group, before: Sequence[int]) -> Pattern:
    """J^T of a group, from the gradient at its end to that at the boundary before.

    Its entries are those of the Jacobians that `scan_gradients` multiplies, or bound them. A closed
    form stands here, and only here: what a scan costs by arithmetic (`as_arithmetic_costs`, stored
    for the zoo) counts entries of Jacobians too large to build.
    """
    forms = passes.forms
    rows: dict[Part, dict[Part, Block]] = {
        (value, part): {(value, part): _same(channels, forms[value].axes)}
        for value in group.boundary
        for part, channels in enumerate(forms[value].parts)
    }
    for number in reversed(group.operators if before else ()):
        operator, sources = passes.operators[number], passes.flow.sources[number]
        reads = [view for view in operator.reads if view.value in sources]
        for made, view in product(operator.makes, dict.fromkeys(reads)):
            for made_part, read_part, block in _local(operator, made, reads, view, forms):
                above = rows.get((made.value, made_part), {})
                into = rows.setdefault((view.value, read_part), {})
                for end, first in above.items():
                    into[end] = first.after(block).joined(into.get(end))
    kept = {
        (value, part): rows[value, part]
        for value in before
        for part in range(len(forms[value].parts))
        if rows.get((value, part))
    }
    return Pattern(kept, sum(forms[value].numbers for value in before))


def _form(operator: Operator, made: View, reads: Sequence[View], forms: Mapping[int, Form]) -> Form:
    """Form of an operator's result; as what it reads where it computes number by number."""
    name = operator.name.rstrip("_")
    same = [view for view in reads if view.shape == made.shape and _whole(view, forms)]
    if same and (name in ELEMENTWISE or "batch_norm" in name or "pool" in name):
        return forms[same[0].value]
    plain = _plain(made.shape)
    if _joins_channels(operator, reads, forms):
        channels = (_parts(view, reads, forms) for view in operator.reads)
        return Form(tuple(chain.from_iterable(channels)), plain.axes)
    if len(reads) == 1 and ("pool" in name or "batch_norm" in name) and _whole(reads[0], forms):
        return Form(forms[reads[0].value].parts, plain.axes)
    return plain


def _plain(shape: Sequence[int]) -> Form:
    samples, channels, *pixels = (*shape, 1, 1)[: max(len(shape), 2)]
    axes = (samples, *pixels)
    if len(axes) > AXES:
        axes = (samples, prod(pixels))
    return Form((channels,), (*axes, *(1,) * (AXES - len(axes))))


def _whole(view: View, forms: Mapping[int, Form]) -> bool:
    """Whether a view shows all of a value, in its order, whatever the shape."""
    in_order = all(
        size == 1 or stride == prod(view.shape[axis + 1 :])
        for axis, (size, stride) in enumerate(zip(view.shape, view.strides, strict=True))
    )
    return in_order and not view.offset and prod(view.shape) == forms[view.value].numbers


def _joins_channels(operator: Operator, reads: Sequence[View], forms: Mapping[int, Form]) -> bool:
    """Whether an operator puts values, those without a gradient too, beside each other."""
    if operator.name != "cat":
        return False
    arguments, axes = operator.arguments[0], len(operator.results[0].shape)
    axis = arguments[1] if len(arguments) > 1 else 0
    return axis in (1, 1 - axes) and all(_as_shown(view, forms) for view in reads)


def _parts(view: View, reads: Sequence[View], forms: Mapping[int, Form]) -> tuple[int, ...]:
    return forms[view.value].parts if view in reads else (view.shape[1],)


def _as_shown(view: View, forms: Mapping[int, Form]) -> bool:
    form, plain = forms[view.value], _plain(view.shape)
    return _whole(view, forms) and form.axes == plain.axes and sum(form.parts) == plain.parts[0]


def _local(
    operator: Operator, made: View, reads: Sequence[View], view: View, forms: Mapping[int, Form]
) -> Iterable[tuple[int, int, Block]]:
    """Blocks of an operator between the parts of what it makes and of one value that it reads."""
    out, read = forms[made.value], forms[view.value]
    if _joins_channels(operator, reads, forms):
        first = 0
        for other in operator.reads:
            for part, channels in enumerate(read.parts if other == view else ()):
                yield first + part, part, _same(channels, out.axes)
            first += len(_parts(other, reads, forms))
        return
    reach, dense = _reach(operator, made, view, forms)
    own = not dense and len(out.parts) == len(read.parts)
    for (to, made_channels), (at, read_channels) in product(
        enumerate(out.parts), enumerate(read.parts)
    ):
        if not own or to == at:
            yield to, at, Block(made_channels, read_channels, dense, tuple(reach))


Reach = tuple[list[Interval], bool]
"""Positions that each position reads, by axis; and whether it reads all channels."""


def _reach(operator: Operator, made: View, view: View, forms: Mapping[int, Form]) -> Reach:
    axes = forms[made.value].axes, forms[view.value].axes
    reach = None
    if _whole(view, forms):
        reach = _by_place(operator, made, view, axes)
        if reach is None and _as_shown(view, forms):
            reach = _by_window(operator, made, view, axes)
        reach = reach or _by_sample(operator, made, view, axes)
    return reach or (list(map(_all, *axes)), True)


Axes = tuple[Sequence[int], Sequence[int]]


def _by_place(operator: Operator, made: View, view: View, axes: Axes) -> Reach | None:
    """Reach of an operator that reads the same place alone, None for others."""
    out, read = axes
    name, args = operator.name.rstrip("_"), operator.arguments[0]
    each = [_each(size) for size in out]
    if "batch_norm" in name:
        return ([_all(size, size) for size in out] if args[5] else each), False
    if out == read and name in ELEMENTWISE and prod(view.shape) == prod(made.shape):
        return each, False
    along_channels = len(args) > 1 and args[1] in (1, 1 - len(view.shape))
    return (each, True) if "softmax" in name and out == read and along_channels else None


def _by_window(operator: Operator, made: View, view: View, axes: Axes) -> Reach | None:
    """Reach of an operator that reads windows of pixels, None for others."""
    out, read = axes
    name, args, spatial = operator.name, operator.arguments[0], len(view.shape) - 2
    if name == "convolution" and not args[6]:
        sizes = (operator.reads[1].shape[2:], *args[3:6])
        alone = args[8] == view.shape[1] == made.shape[1]
        return [_each(out[0]), *_windows(axes, spatial, sizes)], not alone
    if name.startswith(("max_pool", "avg_pool")):
        stride = args[2] if len(args) > 2 and args[2] else args[1]
        sizes = (args[1], stride, args[3] if len(args) > 3 else [0], [1])
        return [_each(out[0]), *_windows(axes, spatial, sizes)], False
    if "adaptive_avg_pool" in name:
        shares = [
            (np.arange(o) * g // o, -(-(np.arange(o) + 1) * g // o) - 1)
            for o, g in zip(out[1:], read[1:], strict=True)
        ]
        return [_each(out[0]), *shares], False
    return None


def _by_sample(operator: Operator, made: View, view: View, axes: Axes) -> Reach | None:
    """Reach of an operator that reads all of its own sample, None for others."""
    out, read = axes
    pixels = list(map(_all, out[1:], read[1:]))
    if operator.name in ("mean", "sum") and made.shape[:2] == view.shape[:2]:
        return [_each(out[0]), *pixels], False
    of_rows = operator.name in ("addmm", "mm") and made.shape[0] == out[0] == read[0]
    normalised = "layer_norm" in operator.name or "group_norm" in operator.name
    if of_rows or (normalised and out[0] == read[0]):
        return [_each(out[0]), *pixels], True
    return None


def _windows(axes: Axes, spatial: int, sizes: Sequence[Sequence[int]]) -> list[Interval]:
    """Windows along each axis of pixels, for a kernel, stride, padding and dilation."""
    out, read = axes
    by_axis = zip(*(np.broadcast_to(size, spatial) for size in sizes), strict=True)
    windows = []
    for axis, (kernel, stride, padding, dilation) in enumerate(by_axis, 1):
        start, last = np.arange(out[axis]) * stride - padding, read[axis] - 1
        end = start + (kernel - 1) * dilation
        windows.append((np.clip(start, 0, last), np.clip(end, 0, last)))
    return [*windows, *(_each(size) for size in out[1 + spatial :])]


def _each(size: int) -> Interval:
    return np.arange(size), np.arange(size)


def _all(made: int, read: int) -> Interval:
    return np.zeros(made, np.int64), np.full(made, read - 1)


def _same(channels: int, axes: Sequence[int]) -> Block:
    return Block(channels, channels, False, tuple(map(_each, axes)))
