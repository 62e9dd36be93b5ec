"""Environments as Hong and Chandra (2021) state them, and what clusters become of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations

import pytest

from tests.refusals import refusals
from workbench.clusters import Schedule
from workbench.clusters.schedule import OverTime
from workbench.dlion.costs.environments import (
    ENVIRONMENTS,
    STATED,
    Environment,
    speed_up,
)
from workbench.runtime import Context, Message, Program, simulate

FULL, LAN = "24/24/24/24/24/24", "1000/1000/1000/1000/1000/1000"
REGIONS = ("V", "O", "I", "M", "S1", "S2")

TABLE_3 = {
    "homo_a": ("Homo A", FULL, LAN),
    "homo_b": ("Homo B", FULL, "50/50/50/50/50/50"),
    "homo_c": ("Homo C", "1/1/1/1/1/1", LAN),
    "hetero_cpu_a": ("Hetero CPU A", "24/24/12/12/6/6", LAN),
    "hetero_cpu_b": ("Hetero CPU B", "24/24/24/24/24/4", LAN),
    "hetero_net_a": ("Hetero NET A", FULL, "50/50/35/35/20/20"),
    "hetero_sys_a": ("Hetero SYS A", "24/24/12/12/6/6", "50/50/35/35/20/20"),
    "hetero_sys_b": ("Hetero SYS B", "24/24/12/12/6/6", "20/20/35/35/50/50"),
    "hetero_sys_c": ("Hetero SYS C", "8/8/1/1/1/1", "190/190/140/140/100/100"),
}
TABLE_2 = """
    -   190 181 53  58  56
    187 -   91  41  93  84
    171 92  -   73  30  41
    53  41  73  -   85  79
    58  88  40  85  -   79
    56  84  36  79  72  -
"""
DYNAMIC = {
    "dynamic_sys_a": ("homo_b", "hetero_sys_a", "hetero_sys_b"),
    "dynamic_sys_b": ("hetero_sys_b", "hetero_sys_a", "homo_b"),
}

SMALL = Environment("small", (1, 2), (10, 20))


def at(given: Sequence[OverTime], at_s: float) -> str:
    """What all workers have at a time, as the paper writes it."""
    return "/".join(f"{Schedule.of(one).at(at_s):g}" for one in given)


def deliver_s(environment: Environment, *pairs: tuple[int, int]) -> dict[tuple[int, int], float]:
    """When 1e6 bytes arrive that senders send to receivers at once."""

    async def program(context: Context) -> dict[tuple[int, int], float]:
        arrived_s = {}
        for sender, receiver in pairs:
            if sender == context.node:
                context.send(receiver, Message(sender, "x", None, 1e6))
        for _ in [receiver for _, receiver in pairs if receiver == context.node]:
            message = await context.receive()
            arrived_s[message.sender, context.node] = context.now_s()
        return arrived_s

    programs: list[Program] = [program] * environment.workers
    results = simulate(environment.cluster(), programs).results
    return {pair: at_s for one in results.values() for pair, at_s in one.items()}


@pytest.mark.parametrize("name", TABLE_3)
def test_table_3(name: str) -> None:
    made = ENVIRONMENTS[name]
    assert (made.title, at(made.cores, 0), at(made.mbps, 0)) == TABLE_3[name]
    assert made.unit == ("GPUs" if name in ("homo_c", "hetero_sys_c") else "cores")


@pytest.mark.parametrize("name", DYNAMIC)
@pytest.mark.parametrize(
    ("at_s", "phase"), [(0, 0), (499.9, 0), (500, 1), (999.9, 1), (1000, 2), (1400, 2)]
)
def test_dynamic_environments_go_through_others(name: str, at_s: float, phase: int) -> None:
    made, now = ENVIRONMENTS[name], TABLE_3[DYNAMIC[name][phase]]
    assert (at(made.cores, at_s), at(made.mbps, at_s)) == now[1:]


@pytest.mark.parametrize(
    ("name", "at_s", "cores", "mbps"),
    [
        *(("fig19", at_s, FULL, LAN) for at_s in (0, 99.9)),
        ("fig19", 100, "24/24/12/12/4/4", LAN),
        ("fig19", 300, "12/12/12/12/12/12", LAN),
        *(("fig19", at_s, "4/4/12/12/24/24", LAN) for at_s in (500, STATED["fig19"]["end_s"])),
        *(("fig20", at_s, FULL, "/".join(["30"] * 6)) for at_s in (0, 600, 1000)),
        *(("fig20", at_s, FULL, "/".join(["100"] * 6)) for at_s in (100, 599.9)),
    ],
)
def test_environments_of_figures(name: str, at_s: float, cores: str, mbps: str) -> None:
    made = ENVIRONMENTS[name]
    assert (at(made.cores, at_s), at(made.mbps, at_s)) == (cores, mbps)
    assert STATED["fig19"]["gbs"] == 32 * made.workers
    assert STATED["fig20"]["end_s"] == 1000


def test_table_2() -> None:
    rows = [line.split() for line in TABLE_2.strip().splitlines()]
    regions = ENVIRONMENTS["regions"]
    expected = {
        (one, two): float(mbps)
        for one, row in enumerate(rows)
        for two, mbps in enumerate(row)
        if mbps != "-"
    }
    assert regions.pairs_mbps == expected
    assert list(STATED["regions"]) == list(REGIONS)
    assert (at(regions.cores, 0), at(regions.mbps, 0)) == (FULL, LAN)


def test_a_pair_of_regions_differs_by_direction() -> None:
    there, back, far = (0, 1), (1, 0), (5, 4)
    times_s = deliver_s(ENVIRONMENTS["regions"], there, back, far)
    assert times_s == {there: 8e6 / 190e6, back: 8e6 / 187e6, far: 8e6 / 72e6}


@pytest.mark.parametrize("away", [True, False], ids=["sender", "receiver"])
def test_transfers_share_an_interface(away: bool) -> None:
    pairs = [(0, peer) if away else (peer, 0) for peer in range(1, 6)]
    times_s = deliver_s(ENVIRONMENTS["homo_b"], *pairs)
    assert list(times_s.values()) == pytest.approx([5e6 * 8 / 50e6] * 5, rel=1e-12)
    assert deliver_s(ENVIRONMENTS["hetero_net_a"], (0, 5)) == {(0, 5): 8e6 / 20e6}


def test_a_transfer_while_bandwidth_changes() -> None:
    environment = Environment("changes", (1, 1), ([(0, 4), (1, 8)], [(0, 100)]))
    times_s = deliver_s(environment, (0, 1))
    assert times_s == {(0, 1): pytest.approx(1 + 4e6 / 8e6, rel=1e-12)}


def test_speed_up_by_hand() -> None:
    assert speed_up(1) == 1
    assert speed_up(24) == pytest.approx(1 / (0.1 + 0.9 / 24))
    assert speed_up(8, 0.5) == pytest.approx(1 / (0.5 + 0.0625))
    assert speed_up(24, 1) == 24
    assert speed_up(24, 0) == 1


def test_cluster_of_constant_capacities() -> None:
    cluster = ENVIRONMENTS["hetero_sys_a"].cluster(link_share=0.5, carries=0.1)
    assert cluster.names == tuple(f"worker{index}" for index in range(6))
    assert len(cluster.links) == 30
    for index, (cores, mbps) in enumerate(
        zip((24, 24, 12, 12, 6, 6), (50, 50, 35, 35, 20, 20), strict=True)
    ):
        node = cluster.nodes[index]
        assert node.cores == 1
        assert node.speed_over_time.constant == speed_up(cores)
        assert node.uplink == node.downlink
        assert node.uplink
        assert node.uplink.constant == pytest.approx(mbps * 0.05 * 1e6, rel=1e-15)
        for peer in cluster.targets(index):
            link = cluster.link(index, peer)
            assert link.bandwidth == node.uplink.constant
            assert (link.overhead_s, link.latency_s) == (0, 0)


def test_cluster_of_changing_capacities() -> None:
    cluster = ENVIRONMENTS["fig19"].cluster(parallel_share=1)
    assert cluster.nodes[0].speed == Schedule((0, 100, 300, 500), (24, 24, 12, 4))
    cluster = ENVIRONMENTS["fig20"].cluster(carries=0.5)
    changing = Schedule((0, 100, 600), (15e6, 50e6, 15e6))
    assert cluster.nodes[3].uplink == cluster.nodes[3].downlink == changing
    assert cluster.link(3, 4).bandwidth == changing


def test_links_of_their_own_are_no_wider_than_the_senders_interface() -> None:
    mbps = ([(0, 30), (5, 10)], 100)
    cluster = Environment("own", (1, 1), mbps, {(0, 1): 20, (1, 0): 200}).cluster(link_share=0.5)
    assert cluster.link(0, 1).bandwidth == Schedule((0, 5), (10e6, 5e6))
    assert cluster.link(1, 0).bandwidth == 50e6


def test_each_link_has_its_rate_to_itself() -> None:
    """Fig. 8: one worker's links differ by the receiver; no end has more than its own."""
    cluster = ENVIRONMENTS["hetero_net_a"].cluster(shared_interfaces=False)
    mbps = (50, 50, 35, 35, 20, 20)
    rates = {pair: Schedule.of(link.bandwidth_bps).constant for pair, link in cluster.links.items()}
    assert rates == {(i, j): 1e6 * min(mbps[i], mbps[j]) for i, j in permutations(range(6), 2)}
    assert all(node.uplink is node.downlink is None for node in cluster.nodes)
    regions = ENVIRONMENTS["regions"].cluster(shared_interfaces=False)
    assert regions.link(0, 1).bandwidth == 190e6
    changing = Environment("x", (1, 1), ([(0, 30), (5, 10)], [(0, 20), (8, 5)]))
    rate = changing.cluster(shared_interfaces=False).link(0, 1).bandwidth
    assert rate == Schedule((0, 5, 8), (20e6, 10e6, 5e6))


def test_more_workers_of_the_same_kind() -> None:
    many = ENVIRONMENTS["hetero_sys_a"].of(64)
    assert many.workers == len(many.cluster()) == 64
    assert many.cores[:6] == many.cores[6:12] == ENVIRONMENTS["hetero_sys_a"].cores
    assert (at(many.cores[63:], 0), at(many.mbps[63:], 0)) == ("12", "35")  # the fourth of six
    assert ENVIRONMENTS["homo_c"].of(2).unit == "GPUs"
    assert at(ENVIRONMENTS["dynamic_sys_b"].of(8).mbps, 1000) == "50/50/50/50/50/50/50/50"


test_environment = refusals(
    Environment,
    {"title": "x", "cores": (1, 2), "mbps": (1, 2)},
    {
        "cores": {
            "cores of 1 workers.*at least two": [(1,)],
            "cores is 24; give one entry for each worker": [24],
            "cores of worker 1: the schedule is 0 for ever": [(1, 0)],
            "worker 0 is without cores": [([(0, 0), (5, 1)], 1)],
            "cores of worker 1: .* from 1e-12 to 1e": [(1, math.inf), (1, -4)],
            "cores of worker 1: 'many'": [(1, "many")],
            "cores of worker 1: .*is not a schedule": [(1, {0: 4})],
        },
        "mbps": {
            "cores of 2 workers and mbps of 3": [(1, 2, 3)],
            "mbps of worker 1: the schedule is 0 for ever": [(1, 0)],
            "worker 0 is without bandwidth": [(Schedule((0, 1), (0, 2)), 1)],
            "mbps of worker 1: .*start at 0 s": [(1, [(5, 2)])],
            "mbps of worker 1: .*give pairs": [(1, [1, 2])],
        },
        "unit": {"unit is 'cpus'.*cores or GPUs": ["cpus"]},
        "pairs_mbps": {
            "map pairs to Mbit/s": [[1]],
            "two different workers of 0 to 1": [{(0, 2): 5}, {(1, 1): 5}],
            "is 0; give finite Mbit/s": [{(0, 1): 0}],
        },
    },
)
test_workers = refusals(
    SMALL.of,
    {"workers": 2},
    {"workers": {"workers is 1; it must be a whole number of at least 2": [1]}},
)
test_cluster = refusals(
    SMALL.cluster,
    {},
    {
        "parallel_share": {"parallel_share is 1.5; give a share": [1.5]},
        "link_share": {"link_share is 0; give a share above 0": [0]},
        "shared_interfaces": {"shared_interfaces is 'no'": ["no"]},
        "carries": {"carries is nan; give a finite factor": [math.nan]},
    },
)
test_speed_up = refusals(
    speed_up, {"cores": 1}, {"cores": {"cores is 0; give a finite number above 0": [0]}}
)
