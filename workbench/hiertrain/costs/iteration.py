"""HierTrain's cost model: what one iteration takes under a policy (Liu et al. 2020, IV-C)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import overload

from workbench.hiertrain.costs.policy import Chain, Hybrid, Policy
from workbench.hiertrain.costs.problem import TIERS, FloatArray, Problem, check_problem
from workbench.utils.checks import check_kind


class Iteration(ABC):
    """Seconds of one iteration: forward, backward and weight update, one after the other."""

    @property
    @abstractmethod
    def forward_s(self) -> float:
        """From the sending of samples to the loss."""

    @property
    @abstractmethod
    def backward_s(self) -> float:
        """From the loss to the last gradient."""

    @property
    @abstractmethod
    def update_s(self) -> float:
        """From the last gradient to the last weight."""

    @property
    def total_s(self) -> float:
        """The whole iteration (Eq. 12)."""
        return self.forward_s + self.backward_s + self.update_s


@dataclass(frozen=True)
class HybridIteration(Iteration):
    """Terms of Eqs. (5)-(12), in seconds, by the paper's names.

    ``{o,s,l}_input_s``, ``{s,l}_output_s``, ``{s,l}_grad_s``, ``{s,l}_weightgrad_s`` are the
    messages; ``forward_{1,2,3}_s``, ``backward_{1,2,3}_s`` the phases, each as long as the worker
    that takes longest; ``{o,s,l}_update_s`` the updates of the weights. ``o_weightgrad_s`` is 0
    unless several devices are worker o.
    """

    o_input_s: float
    s_input_s: float
    l_input_s: float
    forward_1_s: float
    forward_2_s: float
    forward_3_s: float
    s_output_s: float
    l_output_s: float
    s_grad_s: float
    l_grad_s: float
    backward_1_s: float
    backward_2_s: float
    backward_3_s: float
    o_update_s: float
    s_update_s: float
    l_update_s: float
    o_weightgrad_s: float
    s_weightgrad_s: float
    l_weightgrad_s: float

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, float(getattr(self, field.name)))

    @property
    def forward_s(self) -> float:
        """Eqs. (5), (7) and (9) added up."""
        return self.forward_1_s + self.forward_2_s + self.forward_3_s

    @property
    def backward_s(self) -> float:
        """Eqs. (6), (8) and (10) added up."""
        return self.backward_1_s + self.backward_2_s + self.backward_3_s

    @property
    def update_s(self) -> float:
        """Eq. (11)."""
        updates_s = max(self.o_update_s, self.s_update_s, self.l_update_s)
        return updates_s + max(self.o_weightgrad_s, self.s_weightgrad_s, self.l_weightgrad_s)


@dataclass(frozen=True)
class ChainIteration(Iteration):
    """Terms of an iteration of a `Chain`, in seconds; nothing overlaps.

    Attributes
    ----------
    samples_s
        The device sends the samples to the tier of layer 1.
    forward_layer_s, backward_layer_s
        Computation of each layer, layer 1 first. Shape (N,).
    forward_cut_s, backward_cut_s
        Features from layer l to l+1 and gradients back, 0 within a tier. Shape (N-1,).
    tier_update_s
        For device, edge and cloud, the update of the layers that they hold; all at once.
    averaging_s
        Several devices average the gradients of their layers.
    """

    samples_s: float
    forward_layer_s: tuple[float, ...]
    backward_layer_s: tuple[float, ...]
    forward_cut_s: tuple[float, ...]
    backward_cut_s: tuple[float, ...]
    tier_update_s: tuple[float, ...]
    averaging_s: float

    @property
    def forward_s(self) -> float:
        """Samples, layers and cuts added up."""
        return self.samples_s + sum(self.forward_layer_s) + sum(self.forward_cut_s)

    @property
    def backward_s(self) -> float:
        """Layers and cuts added up."""
        return sum(self.backward_layer_s) + sum(self.backward_cut_s)

    @property
    def update_s(self) -> float:
        """The tier whose update takes longest, as in Eq. (11)."""
        return max(self.tier_update_s) + self.averaging_s


@overload
def iteration(problem: Problem, policy: Hybrid) -> HybridIteration: ...
@overload
def iteration(problem: Problem, policy: Chain) -> ChainIteration: ...
@overload
def iteration(problem: Problem, policy: Policy) -> Iteration: ...
def iteration(problem: Problem, policy: Policy) -> Iteration:
    """Seconds of one iteration under a policy.

    Read literally: a worker's samples take the bandwidth between the device and that worker, and
    none if it is the device; a task of some layers but no samples still exchanges its weights
    (Eq. 11), as one message there and one back.
    """
    check_problem(problem)
    example = "a Hybrid or a Chain, as planners make: PLANNERS['hiertrain'](problem)"
    check_kind("the policy", policy, Policy, example)  # type: ignore[type-abstract]
    policy.check(problem)
    if isinstance(policy, Hybrid):
        return _hybrid(problem, policy)
    assert isinstance(policy, Chain)
    return _chain(problem, policy)


def _hybrid(problem: Problem, policy: Hybrid) -> HybridIteration:
    o, s, l = policy.order  # noqa: E741
    m_s, m_l, layers = policy.m_s, policy.m_l, problem.layers
    b_o, b_s, b_l = policy.b_o, policy.b_s, policy.b_l
    forward_s, backward_s, updates_s = (
        dict(zip(TIERS, sums_s, strict=True)) for sums_s in (*problem.span_s, problem.update_sum_s)
    )

    def crossing_s(of_layers: FloatArray, worker: str, last: int, samples: int) -> float:
        size = samples * of_layers[last - 1] if last else 0.0
        return problem.seconds(size, worker, o)

    input_s = {
        worker: problem.seconds(samples * problem.sample_bytes, "device", worker)
        for worker, samples in ((o, b_o), (s, b_s), (l, b_l))
    }
    averaging_s = [
        problem.averaging_s(problem.param_sum_bytes[last], worker, problem.hub(o))
        for worker, last in ((o, layers), (s, m_s), (l, m_l))
    ]
    tasks = (s, m_s, b_s), (l, m_l, b_l)
    s_output_s, l_output_s = (crossing_s(problem.output_bytes, *task) for task in tasks)
    s_grad_s, l_grad_s = (crossing_s(problem.gradient_bytes, *task) for task in tasks)
    return HybridIteration(
        o_input_s=input_s[o],
        s_input_s=input_s[s],
        l_input_s=input_s[l],
        forward_1_s=max(  # Eq. (5)
            input_s[o] + b_o * forward_s[o][0, m_s],
            input_s[s] + b_s * forward_s[s][0, m_s] + s_output_s,
            input_s[l] + b_l * forward_s[l][0, m_s],
        ),
        forward_2_s=max(  # Eq. (7)
            (b_o + b_s) * forward_s[o][m_s, m_l],
            b_l * forward_s[l][m_s, m_l] + l_output_s,
        ),
        forward_3_s=problem.batch * forward_s[o][m_l, layers],  # Eq. (9)
        s_output_s=s_output_s,
        l_output_s=l_output_s,
        s_grad_s=s_grad_s,
        l_grad_s=l_grad_s,
        backward_1_s=max(  # Eq. (6)
            b_o * backward_s[o][0, m_s],
            b_s * backward_s[s][0, m_s] + s_grad_s,
            b_l * backward_s[l][0, m_s],
        ),
        backward_2_s=max(  # Eq. (8)
            (b_o + b_s) * backward_s[o][m_s, m_l],
            b_l * backward_s[l][m_s, m_l] + l_grad_s,
        ),
        backward_3_s=problem.batch * backward_s[o][m_l, layers],  # Eq. (10)
        o_update_s=updates_s[o][layers],  # Eq. (3), m_o = N
        s_update_s=updates_s[s][m_s],
        l_update_s=updates_s[l][m_l],
        o_weightgrad_s=averaging_s[0],
        s_weightgrad_s=averaging_s[1],
        l_weightgrad_s=averaging_s[2],
    )


def _chain(problem: Problem, policy: Chain) -> ChainIteration:
    tiers, cuts = policy.tiers, range(1, problem.layers)
    compute_s = [problem.batch * problem.layer_s[tier][layer] for layer, tier in enumerate(tiers)]

    def cuts_s(*, back: bool) -> tuple[float, ...]:
        return tuple(
            problem.seconds(
                policy.crossing_bytes(problem, cut, back=back), *tiers[cut - 1 : cut + 1]
            )
            for cut in cuts
        )

    return ChainIteration(
        samples_s=problem.seconds(problem.batch * problem.sample_bytes, "device", tiers[0]),
        forward_layer_s=tuple(float(forward_s) for forward_s, _ in compute_s),
        backward_layer_s=tuple(float(backward_s) for _, backward_s in compute_s),
        forward_cut_s=cuts_s(back=False),
        backward_cut_s=cuts_s(back=True),
        tier_update_s=tuple(policy.update_s(problem, tier) for tier in TIERS),
        averaging_s=problem.averaging_s(
            policy.param_bytes(problem, "device"), "device", problem.hub("device")
        ),
    )
