"""Several devices as one: what their programs take, and the plans for them."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hiertrain.strategies import bps_of, chains, hybrids, problems
from workbench.clusters import Cluster, Link, Node
from workbench.hiertrain import PLANNERS, TIERS, Chain, Hybrid, Policy, Problem, iteration
from workbench.hiertrain.algorithms.baselines import shortest_path
from workbench.hiertrain.costs import Devices, as_one
from workbench.hiertrain.programs import tier_programs
from workbench.runtime import simulate
from workbench.utils.checks import UserError

ORDERS: list[Any] = list(permutations(TIERS))
FACTORS = st.sampled_from([0.1, 0.5, 1.0, 3.0, 20.0])


@st.composite
def devices(
    draw: st.DrawFn, *, layers: int = 3, batch: int = 4, equal: bool = False
) -> list[tuple[Problem, float]]:
    """Two to four devices, which differ in speed, links and samples unless they are equal."""
    first = draw(problems(max_layers=layers, max_batch=batch))
    count = draw(st.integers(2, 4))
    if equal:
        return [(first, 1 / count)] * count
    found = []
    for _ in range(count):
        layer_s = {**first.layer_s, "device": first.layer_s["device"] * draw(FACTORS)}
        update_s = {**first.update_s, "device": first.update_s["device"] * draw(FACTORS)}
        links = dict(first.links)
        for tier in ("edge", "cloud"):
            link = links["device", tier]
            links["device", tier] = replace(link, bandwidth_bps=bps_of(link) * draw(FACTORS))
        found.append(replace(first, layer_s=layer_s, update_s=update_s, links=links))
    weights = [draw(st.sampled_from([1, 2, 10])) for _ in found]
    return [(one, weight / sum(weights)) for one, weight in zip(found, weights, strict=True)]


def simulated_s(team: Devices, policy: Policy, iterations: int = 1) -> float:
    """Seconds of the programs where no messages share a link: samples lie on nodes of their own."""
    edge, cloud = len(team), len(team) + 1
    sources = range(cloud + 1, cloud + 1 + len(team))
    links: dict[tuple[int | str, int | str], Link] = {}
    for at, (one, _) in enumerate(team):
        for pair, link in one.links.items():
            a, b = ({"device": at, "edge": edge, "cloud": cloud}[tier] for tier in pair)
            links[a, b] = links[b, a] = link
        source = sources[at]
        links[source, at] = links[at, source] = Link(math.inf)
        for server in (edge, cloud):
            links[source, server] = links[server, source] = links[at, server]
    cluster = Cluster([Node(f"n{at}") for at in range(sources.stop)], links)
    nodes = range(cloud + 1)
    return simulate(cluster, tier_programs(team, policy, iterations, nodes, sources=sources)).end_s


@given(data=st.data(), team=devices(), iterations=st.integers(1, 3))
@settings(max_examples=150, deadline=None)
def test_programs_take_no_longer_than_predicted(
    data: st.DataObject, team: Devices, iterations: int
) -> None:
    problem = as_one(team)
    policy = data.draw(st.one_of(hybrids(problem), chains(problem)))
    most_s = iterations * iteration(problem, policy).total_s
    assert simulated_s(team, policy, iterations) <= most_s * (1 + 1e-9)


@given(data=st.data(), team=devices(equal=True))
@settings(max_examples=60, deadline=None)
def test_chains_of_equal_devices_overlap_in_their_updates_alone(
    data: st.DataObject, team: Devices
) -> None:
    """A hub may update when it has all gradients, the third tier before that."""
    problem = as_one(team)
    policy = data.draw(chains(problem))
    predicted = iteration(problem, policy)
    begins_s = dict.fromkeys(TIERS, 0.0) | {
        "device": predicted.exchange_s,
        problem.hub("device"): predicted.exchange_s / 2,
    }
    ends_s = (begins_s[tier] + policy.sum_on(tier, problem.update_s[tier]) for tier in TIERS)
    expected_s = predicted.forward_s + predicted.backward_s + max(ends_s)
    assert simulated_s(team, policy) == pytest.approx(expected_s, rel=1e-9)
    assert expected_s <= predicted.total_s * (1 + 1e-12)


@given(team=devices(batch=3))
@settings(max_examples=60, deadline=None)
def test_hiertrain_is_the_fastest_of_all_policies_and_paths_are_the_shortest(team: Devices) -> None:
    problem = as_one(team)
    layers, batch = problem.layers, problem.batch
    all_hybrids = [
        Hybrid(order, m_s, m_l, batch - b_s - b_l, b_s, b_l)
        for order in ORDERS
        for m_l in range(layers + 1)
        for m_s in range(m_l + 1)
        for b_s in range(batch + 1 if m_s else 1)
        for b_l in range(batch - b_s + 1 if m_l else 1)
    ]
    least_s = min(iteration(problem, policy).total_s for policy in all_hybrids)
    planned_s = iteration(problem, PLANNERS["hiertrain"](problem)).total_s
    assert planned_s == pytest.approx(least_s, rel=1e-9)
    free = {pair: replace(link, overhead_s=0.0) for pair, link in problem.links.items()}
    assert problem.averaging is not None
    ways = {tier: replace(link, overhead_s=0.0) for tier, link in problem.averaging.links.items()}
    problem = replace(problem, links=free, averaging=problem.averaging._replace(links=ways))

    def path_s(policy: Policy) -> float:
        takes = iteration(problem, policy)
        return takes.total_s - takes.weights_s

    for tiers in (TIERS, ("device", "cloud")):
        every = (Chain(each, batch) for each in product(tiers, repeat=layers))
        shortest = shortest_path(problem, tiers)
        assert path_s(shortest) == pytest.approx(min(map(path_s, every)), rel=1e-9)


EACH = {"device": [[1.0, 1.0]], "edge": [[0.1, 0.1]], "cloud": [[0.1, 0.1]]}
LINKS = {
    ("device", "edge"): Link(8e6, 0.25),
    ("edge", "cloud"): Link(8e6, 0.25),
    ("device", "cloud"): Link(4e6, 0.25),
}


def problem_of(param_bytes: float = 0.0) -> Problem:
    updates = {tier: [0.0] for tier in TIERS}
    return Problem(EACH, updates, [param_bytes], [1e6], sample_bytes=1e6, links=LINKS, batch=8)


def test_equal_devices_by_hand() -> None:
    problem = as_one([(problem_of(2e6), 0.25)] * 4)
    # Each device sends two samples of 1 MB, a second each; the edge computes 8 (0.1 + 0.1) s.
    edge_s = iteration(problem, PLANNERS["all_edge"](problem)).total_s
    assert edge_s == pytest.approx(0.25 + 2.0 + 1.6)
    # Each device computes two samples, and sends 2 MB of gradients to the edge and gets as many.
    alone = Hybrid(("device", "edge", "cloud"), 0, 0, 8, 0, 0)
    chain = Chain(("device",), 8)
    for policy in (alone, chain):
        assert iteration(problem, policy).total_s == pytest.approx(2 * 2.0 + 2 * (0.25 + 2.0))
    assert problem.hub("device") == "edge"


def test_slowest_device_decides() -> None:
    fast, slow = problem_of(), replace(problem_of(), links=dict.fromkeys(LINKS, Link(1e6, 0.25)))
    problem = as_one([(fast, 0.75), (slow, 0.25)])
    samples_s, *_ = iteration(problem, Chain(("edge",), 8)).forward_phases_s
    assert samples_s == pytest.approx(0.25 + max(6 * 1.0, 2 * 8.0))
    on_devices = iteration(problem, Chain(("device",), 8))
    assert on_devices.forward_s == pytest.approx(6 * 1.0)


def test_one_device_is_as_it_is() -> None:
    problem = problem_of()
    assert as_one([(problem, 1.0)]) is problem


def test_infinitely_fast_links_of_several_devices_take_no_time() -> None:
    problem = as_one(
        [(replace(problem_of(2e6), links=dict.fromkeys(LINKS, Link(math.inf))), 0.5)] * 2
    )
    on_devices = iteration(problem, Chain(("device",), 8))
    assert on_devices.total_s == pytest.approx(4 * 2.0)  # forward and backward


def test_devices_that_are_not_one_team_are_refused() -> None:
    devices: Any
    for devices in (None, [problem_of()], [(problem_of(),)], [(problem_of(), 0.5, 0.5)]):
        with pytest.raises(UserError, match="give pairs of a Problem and its share"):
            as_one(devices)
    devices = [(None, 1.0)]
    with pytest.raises(TypeError, match="problem is None; give a Problem"):
        as_one(devices)
    with pytest.raises(UserError, match="devices hold 2 of the samples"):
        as_one([(problem_of(), 0.5)] * 4)
    with pytest.raises(UserError, match="share is 2; it must be from 0 to 1 of all samples"):
        as_one([(problem_of(), 2), (problem_of(), -1)])
    with pytest.raises(UserError, match="devices are of other layers or batches"):
        as_one([(problem_of(), 0.5), (replace(problem_of(), batch=9), 0.5)])
