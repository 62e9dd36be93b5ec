"""HierTrain's cost model: what one iteration takes under a policy (Liu et al. 2020, IV-C)."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.hiertrain.costs.policy import Chain, Hybrid, Policy
from workbench.hiertrain.costs.problem import TIERS, Problem, check_problem
from workbench.utils.checks import check_kind


@dataclass(frozen=True)
class Iteration:
    """Seconds of one iteration: its phases, one after the other.

    Attributes
    ----------
    forward_phases_s, backward_phases_s
        Of a `Hybrid`, Eqs. (5), (7), (9) and (6), (8), (10): layers 1..m_s, m_s+1..m_l and the
        rest, each as long as the worker that takes longest. Of a `Chain`, in which nothing
        overlaps, the samples (forward), the layers and the messages between them.
    weights_s
        Update of the weights, of the worker that takes longest (Eq. 11).
    exchange_s
        Gradients to the worker that averages them, and their mean back (Eq. 11).
    """

    forward_phases_s: tuple[float, ...]
    backward_phases_s: tuple[float, ...]
    weights_s: float
    exchange_s: float

    @property
    def forward_s(self) -> float:
        """From the sending of samples to the loss."""
        return sum(self.forward_phases_s)

    @property
    def backward_s(self) -> float:
        """From the loss to the last gradient."""
        return sum(self.backward_phases_s)

    @property
    def update_s(self) -> float:
        """From the last gradient to the last weight (Eq. 11)."""
        return self.weights_s + self.exchange_s

    @property
    def total_s(self) -> float:
        """The whole iteration (Eq. 12)."""
        return self.forward_s + self.backward_s + self.update_s


def iteration(problem: Problem, policy: Policy) -> Iteration:
    """Seconds of one iteration under a policy.

    Read literally: a worker's samples take the bandwidth between the device and that worker, and
    none if it is the device; a task of some layers but no samples still exchanges its weights
    (Eq. 11), as one message there and one back.

    >>> from workbench.hiertrain import Chain, iteration, problem_of
    >>> from workbench.profiles import profile_model
    >>> problem = problem_of(
    ...     profile_model("lenet5"),
    ...     flops_per_s={"device": 1e9, "edge": 1e10, "cloud": 1e11},
    ...     device_edge_bps=5e6,
    ...     edge_cloud_bps=3e6,
    ...     batch=32,
    ... )
    >>> round(iteration(problem, Chain(("edge",) * 5, batch=32)).total_s, 3)
    0.168
    """
    check_problem(problem)
    check_kind("policy", policy, Policy, "a Hybrid or a Chain, such as PLANNERS['hiertrain'] makes")  # type: ignore[type-abstract]
    policy.check(problem)
    if isinstance(policy, Hybrid):
        return _hybrid(problem, policy)
    assert isinstance(policy, Chain)
    return _chain(problem, policy)


def _hybrid(problem: Problem, policy: Hybrid) -> Iteration:
    o, s, l = policy.order  # noqa: E741
    m_s, m_l, layers = policy.m_s, policy.m_l, problem.layers
    b_o, b_s, b_l = policy.b_o, policy.b_s, policy.b_l
    forward_s, backward_s, updates_s = (
        dict(zip(TIERS, sums_s, strict=True)) for sums_s in (*problem.span_s, problem.update_sum_s)
    )
    o_input_s, s_input_s, l_input_s = (
        problem.seconds(samples * problem.sample_bytes, "device", worker)
        for worker, samples in ((o, b_o), (s, b_s), (l, b_l))
    )
    (s_output_s, s_grad_s), (l_output_s, l_grad_s) = (
        (
            problem.seconds(samples * problem.output_bytes[last - 1] if last else 0.0, worker, o),
            problem.seconds(samples * problem.gradient_bytes[last - 1] if last else 0.0, worker, o),
        )
        for worker, last, samples in ((s, m_s, b_s), (l, m_l, b_l))
    )
    phase_1_s = max(  # Eq. (5)
        o_input_s + b_o * forward_s[o][0, m_s],
        s_input_s + b_s * forward_s[s][0, m_s] + s_output_s,
        l_input_s + b_l * forward_s[l][0, m_s],
    )
    phase_2_s = max(  # Eq. (7)
        (b_o + b_s) * forward_s[o][m_s, m_l],
        b_l * forward_s[l][m_s, m_l] + l_output_s,
    )
    phase_3_s = problem.batch * forward_s[o][m_l, layers]  # Eq. (9)
    back_1_s = max(  # Eq. (6)
        b_o * backward_s[o][0, m_s],
        b_s * backward_s[s][0, m_s] + s_grad_s,
        b_l * backward_s[l][0, m_s],
    )
    back_2_s = max(  # Eq. (8)
        (b_o + b_s) * backward_s[o][m_s, m_l],
        b_l * backward_s[l][m_s, m_l] + l_grad_s,
    )
    back_3_s = problem.batch * backward_s[o][m_l, layers]  # Eq. (10)
    lasts = policy.lasts(layers).items()
    count = problem.accumulate
    return Iteration(
        tuple(count * float(phase_s) for phase_s in (phase_1_s, phase_2_s, phase_3_s)),
        tuple(count * float(phase_s) for phase_s in (back_1_s, back_2_s, back_3_s)),
        weights_s=max(float(updates_s[worker][last]) for worker, last in lasts),
        exchange_s=max(
            problem.averaging_s(float(problem.param_sum_bytes[last]), worker, problem.hub(o))
            for worker, last in lasts
        ),
    )


def _chain(problem: Problem, policy: Chain) -> Iteration:
    tiers, batch = policy.tiers, problem.batch

    def layers_s(direction: int) -> float:
        each_s = (problem.layer_s[tier][at, direction] for at, tier in enumerate(tiers))
        return sum(float(batch * layer_s) for layer_s in each_s)

    def cuts_s(*, back: bool) -> float:
        return sum(
            problem.seconds(policy.crossing_bytes(problem, cut, back=back), tiers[cut - 1], tier)
            for cut, tier in enumerate(tiers[1:], start=1)
        )

    samples_s = problem.seconds(batch * problem.sample_bytes, "device", tiers[0])
    averaged_bytes = policy.sum_on("device", problem.param_bytes)
    count = problem.accumulate
    return Iteration(
        tuple(count * part_s for part_s in (samples_s, layers_s(0), cuts_s(back=False))),
        tuple(count * part_s for part_s in (layers_s(1), cuts_s(back=True))),
        weights_s=max(policy.sum_on(tier, problem.update_s[tier]) for tier in TIERS),
        exchange_s=problem.averaging_s(averaged_bytes, "device", problem.hub("device")),
    )
