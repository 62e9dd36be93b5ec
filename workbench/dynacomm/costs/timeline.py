"""Timeline of one iteration under a plan."""

from __future__ import annotations

from workbench.dynacomm.costs.iteration import LayerCosts
from workbench.dynacomm.costs.plan import Plan, runs
from workbench.runtime.trace import Span, Trace


def timeline(costs: LayerCosts, plan: Plan, node: str = "worker") -> Trace:
    """Trace of one iteration: a row per transmission and per layer's computation.

    Lanes are ``pull``, ``forward``, ``backward``, ``push``; every step starts as soon as Eqs.
    (1)-(7) allow, so the trace ends at ``iteration(costs, plan).total_s``. Rows carry no bytes:
    costs are known in seconds only.
    """
    plan.check(costs.layers)
    spans: list[Span] = []
    pull_end_s, compute_end_s = 0.0, 0.0
    for first, last in runs(plan.forward_cuts, costs.layers):
        start_s, name = pull_end_s, _name(first, last)
        pull_end_s = start_s + costs.overhead_s + float(costs.pull_s[first - 1 : last].sum())
        spans.append(Span(node, "pull", name, start_s, pull_end_s))
        compute_end_s = max(compute_end_s, pull_end_s)
        for layer in range(first, last + 1):
            start_s, compute_end_s = compute_end_s, compute_end_s + costs.forward_s[layer - 1]
            spans.append(Span(node, "forward", str(layer), start_s, float(compute_end_s)))
    push_end_s = compute_end_s
    for first, last in runs(plan.backward_cuts, costs.layers)[::-1]:
        for layer in range(last, first - 1, -1):
            start_s, compute_end_s = compute_end_s, compute_end_s + costs.backward_s[layer - 1]
            spans.append(Span(node, "backward", str(layer), start_s, float(compute_end_s)))
        start_s = max(push_end_s, compute_end_s)
        push_end_s = start_s + costs.overhead_s + float(costs.push_s[first - 1 : last].sum())
        spans.append(Span(node, "push", _name(first, last), start_s, push_end_s))
    return Trace.of(spans)


def _name(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
