"""Programs on the simulated network: never slower than the cost model says, and what travels."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import permutations
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hiertrain.strategies import chains, hybrids, problems
from workbench.clusters import Link
from workbench.hiertrain import TIERS, Chain, Hybrid, Policy, Problem, iteration
from workbench.hiertrain.programs import cluster_of, programs_of
from workbench.runtime import Run, simulate
from workbench.utils.checks import UnknownNameError

LINKS = {
    ("device", "edge"): Link(8e6),
    ("edge", "cloud"): Link(4e6),
    ("device", "cloud"): Link(2e6),
}
SMALL = Problem(
    layer_s={
        "device": [(0.4, 0.8), (0.2, 0.4), (0.1, 0.2)],
        "edge": [(0.2, 0.4), (0.1, 0.2), (0.05, 0.1)],
        "cloud": [(0.02, 0.04), (0.01, 0.02), (0.005, 0.01)],
    },
    update_s={"device": [1.0, 2.0, 4.0], "edge": [0.5, 1.0, 2.0], "cloud": [0.1, 0.2, 0.4]},
    param_bytes=[1e5, 4e5, 2e6],
    output_bytes=[3e4, 2e4, 1e3],
    sample_bytes=5e4,
    links=LINKS,
    batch=8,
)


def run(
    problem: Problem, policy: Policy, iterations: int = 1, sharing: str = "none", **learning: Any
) -> Run:
    programs = programs_of(problem, policy, iterations, sharing=sharing, **learning)
    return simulate(cluster_of(problem, sharing), programs, trace=True)


@settings(deadline=None)
@given(data=st.data(), iterations=st.integers(1, 3))
def test_hybrid_parallelism_takes_no_longer_than_predicted(
    data: st.DataObject, iterations: int
) -> None:
    problem = data.draw(problems(max_layers=6, max_batch=12))
    policy = data.draw(hybrids(problem))
    end_s = run(problem, policy, iterations).end_s
    assert end_s <= iterations * iteration(problem, policy).total_s * (1 + 1e-9)


@settings(deadline=None)
@given(data=st.data(), iterations=st.integers(1, 3), one_worker=st.booleans())
def test_what_overlaps_nowhere_takes_what_is_predicted(
    data: st.DataObject, iterations: int, one_worker: bool
) -> None:
    """Chains; and one worker alone: All-Edge, All-Cloud, and the device for itself."""
    problem = data.draw(problems(max_layers=6, max_batch=12))
    order: Any = tuple(data.draw(st.permutations(TIERS)))
    alone = Hybrid(order, 0, 0, problem.batch, 0, 0)
    policy = alone if one_worker else data.draw(chains(problem))
    expected_s = iterations * iteration(problem, policy).total_s
    assert run(problem, policy, iterations).end_s == pytest.approx(expected_s, rel=1e-9)


@settings(deadline=None)
@given(data=st.data(), iterations=st.integers(1, 3))
def test_with_barriers_hybrid_parallelism_takes_what_is_predicted(
    data: st.DataObject, iterations: int
) -> None:
    """Sec. IV-B has every phase of Eqs. (5)-(11) begin when all workers have ended the last."""
    problem = data.draw(problems(max_layers=6, max_batch=12))
    policy = data.draw(hybrids(problem))
    with_barriers, without = (
        run(problem, policy, iterations, barriers=barriers).end_s for barriers in (True, False)
    )
    expected_s = iterations * iteration(problem, policy).total_s
    assert with_barriers == pytest.approx(expected_s, rel=1e-9)
    assert without <= with_barriers * (1 + 1e-9)


@settings(deadline=None)
@given(data=st.data(), iterations=st.integers(1, 3))
def test_shared_interfaces_take_no_less_and_end(data: st.DataObject, iterations: int) -> None:
    """Links are the same there; they only have to be shared, or waited for."""
    problem = data.draw(problems(max_layers=5, max_batch=8))
    policy = data.draw(st.one_of(hybrids(problem), chains(problem)))
    alone, shared = (
        run(problem, policy, iterations, sharing) for sharing in ("none", "interfaces")
    )
    assert shared.ended == "done"
    assert shared.end_s >= alone.end_s * (1 - 1e-9)


def test_hybrid_iteration_by_hand() -> None:
    """Cloud o, device s, edge l; every number worked out from the figures above."""
    policy = Hybrid(("cloud", "device", "edge"), m_s=1, m_l=2, b_o=2, b_s=2, b_l=4)
    done = run(SMALL, policy)
    assert done.trace is not None
    rows = done.trace.frame.filter(pl.col("lane").is_in(["forward", "backward", "update"]))
    spans = {
        (node, lane, label.split(",")[0]): (round(start_s, 9), round(end_s, 9))
        for node, lane, label, start_s, end_s, *_ in rows.iter_rows()
    }
    # Samples, 5e4 bytes each: cloud 2 in 0.4 s (2 Mbit/s), edge 4 in 0.2 s (8 Mbit/s).
    assert spans == {
        ("device", "forward", "layers 1-1"): (0.0, 0.8),
        ("edge", "forward", "layers 1-1"): (0.2, 1.0),
        ("edge", "forward", "layers 2-2"): (1.0, 1.4),
        ("cloud", "forward", "layers 1-1"): (0.4, 0.44),
        # Features of the device: 2 x 3e4 bytes over 2 Mbit/s, 0.24 s.
        ("cloud", "forward", "layers 2-2"): (1.04, 1.08),
        # Features of the edge: 4 x 2e4 bytes over 4 Mbit/s, 0.16 s.
        ("cloud", "forward", "layers 3-3"): (1.56, 1.6),
        ("cloud", "backward", "layers 3-3"): (1.6, 1.68),
        ("cloud", "backward", "layers 2-2"): (1.68, 1.76),
        ("cloud", "backward", "layers 1-1"): (1.76, 1.84),
        ("edge", "backward", "layers 2-2"): (1.84, 2.64),
        ("edge", "backward", "layers 1-1"): (2.64, 4.24),
        ("device", "backward", "layers 1-1"): (2.0, 3.6),
        # Weights' gradients, each way: the device's 1e5 bytes 0.4 s, the edge's 5e5 bytes 1 s.
        ("cloud", "update", "weights"): (5.24, 5.94),
        ("device", "update", "weights"): (5.64, 6.64),
        ("edge", "update", "weights"): (6.24, 7.74),
    }
    assert done.end_s == pytest.approx(7.74)
    assert iteration(SMALL, policy).total_s > 7.74


@pytest.mark.parametrize("order", list(permutations(TIERS)))
@pytest.mark.parametrize("sharing", ["none", "interfaces"])
def test_every_link_carries_the_bytes_of_the_model(order: Any, sharing: str) -> None:
    policy = Hybrid(order, m_s=1, m_l=3, b_o=1, b_s=3, b_l=4)
    iterations = 2
    links = run(SMALL, policy, iterations, sharing).links
    o, s, l = order  # noqa: E741
    home = "device" if sharing == "interfaces" else "samples"
    expected: Counter[tuple[str, str]] = Counter()
    for tier, samples in ((o, 1), (s, 3), (l, 4)):
        if tier != home:
            expected[home, tier] += samples * 5e4  # type: ignore[assignment]
    for tier, samples, features, weights in ((s, 3, 3e4, 1e5), (l, 4, 1e3, 2.5e6)):
        for pair in ((tier, o), (o, tier)):
            expected[pair] += samples * features + weights  # type: ignore[assignment]
    carried = {(use.source, use.target): use.bytes for use in links if use.bytes}
    assert carried == {pair: iterations * size for pair, size in expected.items()}


def test_features_travel_in_a_few_bits_between_edge_and_cloud_only() -> None:
    policy = Chain(("device", "edge", "cloud"), 8, bits=8)
    carried = {(use.source, use.target): use.bytes for use in run(SMALL, policy).links if use.bytes}
    assert carried == {
        ("samples", "device"): 8 * 5e4,
        ("device", "edge"): 8 * 3e4,
        ("edge", "cloud"): 8 * 2e4 / 4,
        ("cloud", "edge"): 8 * 2e4 / 4,
        ("edge", "device"): 8 * 3e4,
    }


def test_latency_delays_requests_too() -> None:
    """The cost model has one latency, of the samples; the simulation that of their request, too."""
    late = replace(
        SMALL, links={pair: replace(link, latency_s=0.5) for pair, link in LINKS.items()}
    )
    policy = Chain(("edge",) * 3, 8)
    assert run(late, policy, 2).end_s == pytest.approx(2 * (iteration(late, policy).total_s + 0.5))


def test_shared_interfaces_are_shared() -> None:
    """The device sends to edge and cloud at once, over 8 Mbit/s; the cloud's path has 2 of them."""
    policy = Hybrid(("cloud", "device", "edge"), m_s=0, m_l=1, b_o=4, b_s=0, b_l=4)
    arrived = {}
    for sharing in ("none", "interfaces"):
        trace = run(SMALL, policy, sharing=sharing).trace
        assert trace is not None
        rows = trace.frame.filter(pl.col("label") == "samples")
        arrived[sharing] = dict(zip(rows["lane"], rows["end_s"], strict=True))
    assert arrived["none"] == pytest.approx({"to edge": 0.2, "to cloud": 0.8})
    # 2 Mbit/s go to the cloud, the other 6 to the edge.
    assert arrived["interfaces"] == pytest.approx({"to edge": 1.6 / 6, "to cloud": 0.8})


def test_what_does_not_fit_is_refused() -> None:
    alone = Hybrid(TIERS, 0, 0, 8, 0, 0)
    for iterations in (0, 1.5, None):
        with pytest.raises(ValueError, match=f"iterations is {iterations}"):
            programs_of(SMALL, alone, iterations)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="policy is 'hiertrain'; give a Hybrid or a Chain"):
        programs_of(SMALL, "hiertrain", 1)  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="Did you mean 'interfaces'"):
        cluster_of(SMALL, "interface")
