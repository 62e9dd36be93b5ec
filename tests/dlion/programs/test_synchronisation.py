"""Who waits for whom, seen in recorded runs: what had arrived when an iteration began."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from tests.dlion.trainings import SAMPLE_S, batching, often, setup, starts
from tests.long import usually
from workbench.clusters import Link, Node, full_mesh
from workbench.dlion import Bounded, Links, System, synchronous, train
from workbench.dlion.algorithms import SYSTEMS


@pytest.mark.parametrize("mbps", [0.3, 10])
def test_gaia_waits_for_delivery(mbps: float) -> None:
    speeds = (1.0, 1.0, 0.5)
    found = train(setup(*speeds, mbps=mbps), "gaia")
    sent = found.transfers.filter(topic="gradient")
    for row in starts(found, speeds):
        before = sent.filter(source=row["node"], iteration=row["iteration"] - 1)
        if row["iteration"] > 1:
            assert len(before) == 2
            assert before["at_s"].max() <= row["from_s"] + 1e-9


@pytest.mark.parametrize("synch", [synchronous, Bounded(2)])
def test_who_sends_nothing_is_not_waited_for(synch: Bounded) -> None:
    """A peer that gets no part learns how far the worker is; it costs no byte."""
    silent = System("silent", lambda gradient, links: {}, synch)
    every_other = System(
        "now and then",
        lambda gradient, links: (
            dict.fromkeys(links.peers, gradient.whole) if gradient.iteration % 2 else {}
        ),
        synch,
    )
    found = train(setup(1, 1, 0.5), silent)
    assert found.run.bytes == 0
    assert found.transfers["bytes"].to_list() == [0] * len(found.transfers)
    some = train(setup(1, 1, 0.5), every_other)
    assert some.run.bytes == 5 * 6 * 2600
    for one in (found, some):
        assert one.iterations.group_by("node").len()["len"].to_list() == [10, 10, 10]


def test_a_part_for_one_peer_alone() -> None:
    """Round robin, as a system of one's own; None is nothing."""
    seen: list[Links] = []

    def one_peer(gradient: object, links: Links) -> dict[int, object]:
        seen.append(links)
        parts: dict[int, object] = dict.fromkeys(links.peers)
        peer = links.peers[gradient.iteration % len(links.peers)]  # type: ignore[attr-defined]
        return {**parts, peer: gradient.whole}  # type: ignore[attr-defined]

    system = System("one peer", one_peer, synchronous)  # type: ignore[arg-type]
    found = train(setup(1, 1, 1), system)
    assert found.run.bytes == 10 * 3 * 2600
    first = next(one for one in seen if one.node == 0)
    assert first.peers == (1, 2)
    assert set(first.bandwidth_bps.values()) == {None}
    last = [one for one in seen if one.node == 0][-1]
    assert last.bandwidth_bps == {1: pytest.approx(10e6), 2: pytest.approx(10e6)}
    assert last.iteration_s == pytest.approx(8 * SAMPLE_S)


@pytest.mark.parametrize("name", usually(("gaia", "dlion"), SYSTEMS))
def test_all_bytes_arrive_and_are_recorded(name: str) -> None:
    found = train(setup(1, 1, 0.5, mbps=0.5), often(name))
    assert found.run.ended == "done"
    names = dict(enumerate(setup(1, 1, 0.5).network.names))
    sums = found.transfers.group_by("source", "target").agg(pl.col("bytes").sum())
    recorded = {(names[source], names[target]): size for source, target, size in sums.iter_rows()}
    for use in found.run.links:
        assert use.bytes == recorded.get((use.source, use.target), 0)
        assert use.lost == 0


def test_power_is_measured_by_all_at_once() -> None:
    """Every fourth iteration and the first; nobody learns meanwhile from more than its share."""
    system = replace(SYSTEMS["ako"], batching=batching(period=4))
    found = train(setup(1, 2, 3, iterations=9), system)
    sizes = found.iterations.sort("iteration", "node")["samples"].to_list()
    assert sizes == [4, 8, 12] * 9
    starts_s = {(row["node"], row["iteration"]): row["from_s"] for row in starts(found, (1, 2, 3))}
    for iteration in (1, 4, 8):
        assert len({round(starts_s[node, iteration], 9) for node in range(3)}) == 1
        slowest_s = max(
            float(found.iterations.filter(node=node, iteration=iteration - 1)["at_s"].sum())
            for node in range(3)
        )
        assert all(starts_s[node, iteration] >= slowest_s for node in range(3))


def test_gradients_travel_by_weight_variable() -> None:
    """Each of the two, weights and biases, pays for itself on a link (Sec. 4.2)."""
    cluster = full_mesh([Node("a"), Node("b")], Link(1e12, tensor_s=0.25))
    rows = train(setup(cluster=cluster, iterations=3), "baseline").iterations.filter(node=0)
    assert rows["at_s"].diff().drop_nulls().to_list() == pytest.approx([0.5 + 8 * SAMPLE_S] * 2)
