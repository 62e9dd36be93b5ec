"""Problems for HierTrain's planners: three tiers, the links between them, a model, a batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property, partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workbench.utils.checks import UserError, check_kind, check_layers, check_number, check_whole

FloatArray = NDArray[np.float64]
Pair = tuple[str, str]

TIERS = ("device", "edge", "cloud")
PAIRS: tuple[Pair, ...] = (("device", "edge"), ("edge", "cloud"), ("device", "cloud"))


class Averaging(NamedTuple):
    """How several devices average the gradients of what they train.

    Attributes
    ----------
    hub
        Tier that averages if the devices are worker o.
    bandwidth_bps
        Of a device to edge and cloud, by tier; a problem's own is for a share of the samples.
    """

    hub: str
    bandwidth_bps: Mapping[str, float]


@dataclass(frozen=True, eq=False, init=False)
class Problem:
    """One iteration to be shared out among device, edge and cloud (Liu et al. 2020, Table I).

    The samples lie on the device. The paper's symbols: L^f, L^b are `layer_s`, L^u is `update_s`,
    MP is `param_bytes`, MO is `output_bytes`, Q is `sample_bytes` and B is `batch`.

    Parameters
    ----------
    layer_s
        For each tier its seconds per sample, shape (N, 2): forward and backward of each layer,
        layer 1 first. Kept, as all arrays here, as read-only float64.
    update_s
        For each tier its seconds to update each layer's weights, shape (N,).
    param_bytes
        Bytes of each layer's parameters that are trained, shape (N,). Up to the first layer with
        any, no gradient is passed back.
    output_bytes
        Bytes per sample of what each layer hands to the next, shape (N,).
    sample_bytes
        Bytes of one sample.
    bandwidth_bps
        Bits per second between each pair of tiers, the same both ways; a pair may be written in
        either order.
    batch
        Samples per iteration.
    overhead_s
        Seconds that each message costs beside its bytes, between all tiers or by pair as
        `bandwidth_bps`; kept by pair. A message of no bytes is not sent.
        Deviation: Eq. (4) has none; 0 is the paper's model.
    averaging
        Where the device stands for several; see `costs.tier`.
    """

    layer_s: Mapping[str, FloatArray]
    update_s: Mapping[str, FloatArray]
    param_bytes: FloatArray
    output_bytes: FloatArray
    sample_bytes: float
    bandwidth_bps: Mapping[Pair, float]
    batch: int
    overhead_s: Mapping[Pair, float]
    averaging: Averaging | None

    def __init__(  # noqa: PLR0917 - Table I in its order
        self,
        layer_s: Mapping[str, ArrayLike],
        update_s: Mapping[str, ArrayLike],
        param_bytes: ArrayLike,
        output_bytes: ArrayLike,
        sample_bytes: float,
        bandwidth_bps: Mapping[Pair, float],
        batch: int,
        *,
        overhead_s: float | Mapping[Pair, float] = 0.0,
        averaging: Averaging | None = None,
    ) -> None:
        def keep(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        keep("layer_s", _per_tier("layer_s", layer_s, columns=2))
        keep("update_s", _per_tier("update_s", update_s))
        keep("param_bytes", check_layers("param_bytes", param_bytes))
        keep("output_bytes", check_layers("output_bytes", output_bytes))
        keep("sample_bytes", _number("sample_bytes", sample_bytes))
        keep("bandwidth_bps", _per_pair("bandwidth_bps", bandwidth_bps, check_positive))
        keep("batch", check_whole("batch", batch, 1))
        if not isinstance(overhead_s, Mapping):
            overhead_s = dict.fromkeys(PAIRS, _number("overhead_s", overhead_s))
        keep("overhead_s", _per_pair("overhead_s", overhead_s, _number))
        if averaging is not None:
            check_kind("averaging", averaging, Averaging, "that of several devices, or None")
        keep("averaging", averaging)
        lengths = {f"layer_s of {tier}": len(self.layer_s[tier]) for tier in TIERS}
        lengths |= {f"update_s of {tier}": len(self.update_s[tier]) for tier in TIERS}
        lengths |= {name: len(getattr(self, name)) for name in ("param_bytes", "output_bytes")}
        if len(set(lengths.values())) > 1:
            raise UserError(f"all describe the same layers, but the lengths differ: {lengths}")
        if not math.isfinite(self._longest_s()):
            raise UserError("the costs are finite but their sum is not; give seconds and bytes")

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle without the read-only views of the mappings, which cannot be pickled."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        views = {name: dict(value) for name, value in values.items() if isinstance(value, Mapping)}
        return partial(Problem, **(values | views)), ()

    @property
    def layers(self) -> int:
        """Number of layers, N."""
        return len(self.param_bytes)

    def seconds(self, size_bytes: float, a: str, b: str) -> float:
        """Seconds that a message takes between two tiers (Eq. 4); within a tier it takes none."""
        if a == b and a in TIERS:
            return 0.0
        pair = _pair(a, b)
        return self._sent_s(size_bytes, pair, self.bandwidth_bps[pair])

    def _sent_s(self, size_bytes: float, pair: Pair, bandwidth_bps: float) -> float:
        return self.overhead_s[pair] + 8 * size_bytes / bandwidth_bps if size_bytes > 0 else 0.0

    def hub(self, tier: str) -> str:
        """Tier that averages what a tier trains: itself, unless it has several devices."""
        return self.averaging.hub if self.averaging and tier == "device" else tier

    def averaging_s(self, size_bytes: float, a: str, b: str) -> float:
        """Seconds in which gradients go to a tier that averages them, and their mean comes back."""
        if self.averaging and "device" in (a, b) and a != b:
            (tier,) = {a, b} - {"device"}
            bandwidth_bps = self.averaging.bandwidth_bps[tier]
            return 2 * self._sent_s(size_bytes, ("device", tier), bandwidth_bps)
        return 2 * self.seconds(size_bytes, a, b)

    @cached_property
    def span_s(self) -> FloatArray:
        """[d, t, i, j]: seconds per sample of layers i+1..j. Shape (2, 3, N+1, N+1).

        d is 0 forward and 1 backward; t is the tier's place in `TIERS`.
        """
        # Summed from each start: differences of running sums would lose small layers behind large.
        layers_s = np.stack([self.layer_s[tier].T for tier in TIERS], axis=1)
        rows = np.broadcast_to(layers_s[:, :, None, :], (2, len(TIERS), *(self.layers,) * 2))
        spans_s = np.zeros((2, len(TIERS), *(self.layers + 1,) * 2))
        np.cumsum(np.triu(rows), axis=-1, out=spans_s[:, :, :-1, 1:])
        return _read_only(spans_s)

    @cached_property
    def update_sum_s(self) -> FloatArray:
        """[t, m]: seconds to update layers 1..m, by the tier's place in `TIERS`. Shape (3, N+1)."""
        return _sums(np.stack([self.update_s[tier] for tier in TIERS]))

    @cached_property
    def param_sum_bytes(self) -> FloatArray:
        """[m]: bytes of the parameters of layers 1..m. Shape (N+1,)."""
        return _sums(self.param_bytes)

    @cached_property
    def gradient_bytes(self) -> FloatArray:
        """Bytes per sample of the gradient that is handed back to each layer. Shape (N,).

        As many as it handed on, where it or a layer below it has parameters; else none.
        """
        return _read_only(np.where(self.param_sum_bytes[1:] > 0, self.output_bytes, 0.0))

    def _longest_s(self) -> float:
        """More than any policy takes."""
        with np.errstate(over="ignore"):
            compute_s = sum(self.layer_s[tier].sum() * self.batch for tier in TIERS)
            update_s = sum(self.update_s[tier].sum() for tier in TIERS)
            features = self.batch * (self.sample_bytes + 2 * self.output_bytes.sum())
            sent_bytes = features + 4 * self.param_bytes.sum()
            sent_s = 8 * sent_bytes / min(self.bandwidth_bps.values())
            overheads_s = (9 + 2 * self.layers) * max(self.overhead_s.values())
            return float(compute_s + update_s + sent_s + overheads_s)


def check_problem(problem: object) -> None:
    """Refuse anything but a `Problem`."""
    example = "a Problem, such as problem_of(profile_model(...), ...) makes"
    check_kind("the problem", problem, Problem, example)


def check_positive(name: str, value: object) -> float:
    """Return a positive, finite number as a float."""
    if not 0 < (number := check_number(name, value)) < math.inf:
        raise UserError(f"{name} is {value}; it must be positive and finite")
    return number


def check_tiers(name: str, values: object, each: str) -> None:
    """Refuse anything but a mapping with an entry for each tier."""
    if not isinstance(values, Mapping) or set(values) != set(TIERS):
        got = ", ".join(map(str, values)) if isinstance(values, Mapping) else repr(values)
        raise UserError(f"{name} takes {each} for each of {', '.join(TIERS)}; got {got}")


def _number(name: str, value: object) -> float:
    if not 0 <= (number := check_number(name, value)) < math.inf:
        raise UserError(f"{name} is {value}; it must be finite and not negative")
    return number


def _per_tier(
    name: str, values: Mapping[str, ArrayLike], columns: int | None = None
) -> Mapping[str, FloatArray]:
    check_tiers(name, values, "numbers")
    return MappingProxyType(
        {tier: check_layers(f"{name} of {tier}", values[tier], columns) for tier in TIERS}
    )


def _per_pair(
    name: str, values: Mapping[Pair, float], check: Callable[[str, object], float]
) -> Mapping[Pair, float]:
    example = "{('device', 'edge'): 5e6, ('edge', 'cloud'): 3e6, ('device', 'cloud'): 3e6}"
    if not isinstance(values, Mapping):
        raise UserError(f"{name} is {values!r}; give one for each pair, as in {example}")
    by_pair: dict[Pair, float] = {}
    for names, value in values.items():
        if not isinstance(names, tuple) or len(names) != 2:
            raise UserError(f"{name} names {names!r}, which is no pair of tiers; give {example}")
        a, b = names
        pair = _pair(a, b)
        if pair in by_pair:
            raise UserError(f"{name} names {a} and {b} twice; it is the same both ways")
        by_pair[pair] = check(f"{name} between {a} and {b}", value)
    missing = [f"{a} and {b}" for a, b in PAIRS if (a, b) not in by_pair]
    if missing:
        raise UserError(f"{name} is missing between {'; '.join(missing)}")
    return MappingProxyType({pair: by_pair[pair] for pair in PAIRS})


def _pair(a: str, b: str) -> Pair:
    pair = (a, b) if (a, b) in PAIRS else (b, a)
    if pair not in PAIRS:
        raise UserError(f"no link between {a!r} and {b!r}; the tiers are {', '.join(TIERS)}")
    return pair


def _sums(values: FloatArray) -> FloatArray:
    """[..., m]: sum of the first m values of the last axis."""
    sums = np.zeros((*values.shape[:-1], values.shape[-1] + 1))
    np.cumsum(values, axis=-1, out=sums[..., 1:])
    return _read_only(sums)


def _read_only(array: FloatArray) -> FloatArray:
    array.setflags(write=False)
    return array
