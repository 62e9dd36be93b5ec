"""Predicted iterations are those of simulated trainings, and of a naive recursion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import permutations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.long import usually
from tests.oracles import dlion_costs as oracle
from tests.refusals import refusals
from tests.short_trainings import DIGITS
from workbench.clusters import Cluster, Link, Node, SharedCapacity, full_mesh
from workbench.decentralised import EXCHANGES, DiLoCo, MakeExchange, MoshpitSgd, NoLoCo
from workbench.dlion import (
    ENVIRONMENTS,
    SYSTEMS,
    Batching,
    Bounded,
    Environment,
    Growth,
    Progress,
    Setup,
    System,
    Trained,
    delivered,
    synchronous,
    train,
)
from workbench.dlion.algorithms.hop import bounded_but_the_backup
from workbench.dlion.costs.dry_run import SHARES
from workbench.dlion.costs.iteration import Workload, first_iterations, iteration
from workbench.dlion.gradient import Gradient, Links, Parts

CIPHER_BYTES = 5e6
VALUES = 640
WORK = Workload(4 * VALUES, sample_s=0.05, host_s=0.05, local_batch=8)
ROUNDING = 1e-9


def one_variable() -> nn.Module:
    """A linear classifier of digits without bias."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10, bias=False))


def every_other(gradient: Gradient, links: Links) -> Parts:
    """Send everyone half of the values."""
    mask = np.arange(len(gradient.values)) % 2 == 0
    return dict.fromkeys(links.peers, gradient.part(mask))


BASELINE = SYSTEMS["baseline"]
HALF = System("Half", every_other)
EXACT: dict[str, System | MakeExchange] = {
    **{name: SYSTEMS[name] for name in ("baseline", "hop", "ako", "top_k")},
    **{name: EXCHANGES[name] for name in ("choco_sgd", "ad_psgd")},
    "bounded": replace(BASELINE, synch_training=Bounded(1)),
    "half": HALF,
    "acknowledged": replace(HALF, synch_training=delivered, acknowledged=True),
    "batching": replace(BASELINE, batching=Batching(Growth(16, 2.0, 0.5), period=4)),
    "diloco": DiLoCo(period=3),
    "moshpit_sgd": MoshpitSgd(2),
    "noloco": NoLoCo(2),
}
"""Systems and exchanges whose sizes do not depend on the gradients' values."""


def trained(cluster: Cluster, system: str | System | MakeExchange, iterations: int = 12) -> Trained:
    setup = Setup(
        one_variable(),
        DIGITS,
        cluster=cluster,
        iterations=iterations,
        sample_s=WORK.sample_s,
        host_s=WORK.host_s,
        local_batch=WORK.local_batch,
        evaluate_every=1000,
    )
    return train(setup, system)


def meshed(nodes: list[Node], link: Link) -> Cluster:
    return Cluster(nodes, dict.fromkeys(permutations([node.name for node in nodes], 2), link))


@cache
def narrow(environment: str) -> Cluster:
    """An environment in which the small model takes as long as Cipher."""
    return ENVIRONMENTS[environment].cluster(carries=4 * VALUES / CIPHER_BYTES)


def check_times(cluster: Cluster, system: System | MakeExchange, iterations: int = 12) -> None:
    """Each worker is done with each iteration when it is in a training, its end too."""
    found = trained(cluster, system, iterations).iterations.sort("node", "iteration")
    dry = first_iterations(cluster, WORK, system, iterations, samples=len(DIGITS.y_train))
    assert dry.sort("node", "iteration").drop("at_s").equals(found.select(dry.columns).drop("at_s"))
    np.testing.assert_allclose(dry.sort("node", "iteration")["at_s"], found["at_s"], rtol=ROUNDING)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize(
    "environment", usually(["hetero_sys_a"], ["hetero_sys_a", "hetero_cpu_b", "regions"])
)
def test_times_are_those_of_a_simulated_training(environment: str, name: str) -> None:
    check_times(narrow(environment), EXACT[name])


@settings(max_examples=10, deadline=None)
@given(data=st.data(), name=st.sampled_from([*EXACT]))
def test_times_on_any_cluster(data: st.DataObject, name: str) -> None:
    workers = data.draw(st.integers(2, 5))
    cores = data.draw(st.lists(st.integers(1, 6), min_size=workers, max_size=workers))
    mbps = data.draw(st.lists(st.sampled_from([5, 10, 20, 40]), min_size=workers, max_size=workers))
    where = Environment("any", tuple(cores), tuple(mbps))
    check_times(where.cluster(carries=4 * VALUES / CIPHER_BYTES), EXACT[name], 7)


@pytest.mark.parametrize("limited", [True, False])
def test_overheads_and_latencies_count(limited: bool) -> None:
    link = Link(2e5, overhead_s=0.02, latency_s=0.03)
    cluster = full_mesh(3, link)
    if limited:
        nodes = [Node(f"n{at}", 1, at + 1, 3e5, 2e5 * (at + 1)) for at in range(3)]
        cluster = meshed(nodes, link)
    for name in ("baseline", "acknowledged", "diloco"):
        check_times(cluster, EXACT[name], 6)


def bytes_by_link(transfers: pl.DataFrame, iterations: int) -> dict[tuple[int, int], float]:
    sums = transfers.group_by("source", "target").agg(pl.col("bytes").sum())
    return {(source, target): size / iterations for source, target, size in sums.iter_rows()}


@pytest.mark.parametrize(
    "name", [one for one in EXACT if one not in ("ako", "ad_psgd", "batching")]
)
def test_bytes_are_those_of_a_simulated_training(name: str) -> None:
    """Link by link; of partners that change, in the second half of a run of the same seed."""
    cluster = narrow("hetero_sys_a")
    first, last = (8, 16) if name in ("noloco", "moshpit_sgd") else (0, 12)
    rows = trained(cluster, EXACT[name], last).transfers.filter(pl.col("iteration") > first)
    expected = bytes_by_link(rows, last - first)
    assert iteration(cluster, WORK, EXACT[name]).link_bytes == pytest.approx(expected)


@pytest.mark.parametrize("mbps", usually([5], [5, 40]))
def test_ako_sends_what_it_sends_in_the_long_run(mbps: float) -> None:
    """However much slower than the others a worker is: it knows its links later."""
    where = Environment("any", (1, 6, 24), (mbps, 40, 40))
    cluster = where.cluster(carries=4 * VALUES / CIPHER_BYTES)
    rows = trained(cluster, "ako", 150).transfers.filter(pl.col("iteration") > 100)
    found = iteration(cluster, WORK, "ako", rounds=10)
    for (source, target), mean in found.link_bytes.items():
        sent = rows.filter(source=source, target=target)["bytes"].mean()
        assert mean == pytest.approx(sent, rel=0.01, abs=8)  # blocks differ by a value


def test_what_workers_send_does_not_depend_on_their_order() -> None:
    cores, mbps = (4, 1, 2), (5, 20, 40)
    for name in ("dlion", "max10", "ako"):
        rates = []
        for order in ((0, 1, 2), (1, 2, 0), (2, 1, 0)):
            own = tuple(cores[at] for at in order), tuple(mbps[at] for at in order)
            where = Environment("any", *own)
            cluster = where.cluster(carries=4 * VALUES / CIPHER_BYTES)
            rates.append(iteration(cluster, WORK, name).samples_per_s)
        assert rates == pytest.approx(rates[:1] * 3, rel=0.01)


def test_a_large_model_takes_as_long_as_its_bytes() -> None:
    """Of which fewer values stand for all, on links that carry as much less."""
    cluster = ENVIRONMENTS["hetero_sys_a"].cluster()
    small, large = narrow("hetero_sys_a"), replace(WORK, model_bytes=CIPHER_BYTES)
    shares = len(cluster) / VALUES  # of an all-reduce differ by a value
    for name, rel in {"baseline": 1e-6, "diloco": shares}.items():
        one, two = iteration(small, WORK, name), iteration(cluster, large, name)
        assert one.iteration_s == pytest.approx(two.iteration_s, rel=rel)
        scale = CIPHER_BYTES / WORK.model_bytes
        expected = {pair: each * scale for pair, each in one.link_bytes.items()}
        assert two.link_bytes == pytest.approx(expected, rel=rel)


PLAIN_DLION = replace(
    SYSTEMS["dlion"], transfer=None, batching=Batching(Growth(0, 1.0), period=1000)
)


@pytest.mark.parametrize(
    "environment", usually(["hetero_sys_b"], ["homo_b", "hetero_net_a", "hetero_sys_b"])
)
def test_dlion_sends_what_links_carry_while_it_computes(environment: str) -> None:
    cluster, count = narrow(environment), 100
    predicted = iteration(cluster, WORK, PLAIN_DLION)
    found = trained(cluster, PLAIN_DLION, count)
    means_s = []
    for worker in range(6):
        at_s = found.iterations.filter(node=worker)["at_s"].to_numpy()
        means_s.append((at_s[-1] - at_s[count // 2]) / (count - 1 - count // 2))
    # the others get ahead by so little in an iteration that few of them have to wait yet
    assert predicted.iteration_s[0] - predicted.rare_s[0] == pytest.approx(max(means_s), rel=1e-3)
    settled = found.transfers.filter(pl.col("iteration") > count // 2)
    means = settled.group_by("source", "target").agg(pl.col("bytes").mean())
    for source, target, mean in means.iter_rows():
        # with an index a value takes 8 bytes, and what others leave goes to the widest links
        assert predicted.link_bytes[source, target] == pytest.approx(mean, rel=0.15, abs=8)


@pytest.mark.parametrize("environment", usually(["regions"], ["hetero_sys_b", "regions"]))
def test_what_is_rare_in_dlion_counts(environment: str) -> None:
    cluster, count = narrow(environment), 300
    predicted = iteration(cluster, WORK, "dlion")
    rows = trained(cluster, "dlion", count).iterations.filter(node=0)
    at_s = rows["at_s"].to_numpy()
    mean_s = (at_s[-1] - at_s[count // 3]) / (count - 1 - count // 3)
    assert mean_s > 1.02 * (predicted.iteration_s[0] - predicted.rare_s[0])
    assert predicted.iteration_s[0] == pytest.approx(mean_s, rel=0.2)  # who is best is not known


@st.composite
def small_cases(draw: st.DrawFn) -> tuple[list[int], list[int], int]:
    workers = draw(st.integers(2, 4))
    computing = draw(st.lists(st.integers(1, 4), min_size=workers, max_size=workers))
    mbps = draw(st.lists(st.sampled_from([1, 2, 4]), min_size=workers, max_size=workers))
    return computing, mbps, draw(st.sampled_from([1, 3, 8]))


def _hop(computed: int, newest: list[int]) -> bool:
    in_time = sorted(newest)[1:]
    return min(in_time, default=computed) >= computed - 5 and min(newest) >= computed - 10


WAITING: dict[str, tuple[Callable[..., bool], oracle.MayBegin]] = {
    "synchronous": (synchronous, lambda computed, newest: min(newest) >= computed),
    "bounded": (Bounded(2), lambda computed, newest: min(newest) >= computed - 2),
    "hop": (bounded_but_the_backup, _hop),
}


@pytest.mark.parametrize("waiting", WAITING)
@settings(max_examples=12, deadline=None)
@given(case=small_cases())
def test_begins_are_those_of_the_oracle(
    waiting: str, case: tuple[list[int], list[int], int]
) -> None:
    computing, mbps, megabits = case
    bps = [one * 10**6 for one in mbps]
    nodes = [
        Node(f"n{at}", 1, 1 / seconds, limit, limit)
        for at, (seconds, limit) in enumerate(zip(computing, bps, strict=True))
    ]
    cluster = meshed(nodes, Link(3e6))
    synch, may_begin = WAITING[waiting]
    work = Workload(megabits * 1e6 / 8, sample_s=1.0, local_batch=1)
    system = replace(BASELINE, synch_training=synch)
    iterations = 14 if waiting == "hop" else 6  # beyond its bounds
    dry = first_iterations(cluster, work, system, iterations).sort("node", "iteration")
    found = dry["at_s"].to_numpy().reshape(len(computing), iterations)
    exact = oracle.begins_s(
        [Fraction(seconds) for seconds in computing],
        megabits * 10**6,
        3 * 10**6,
        bps,
        may_begin=may_begin,
        iterations=iterations,
    )
    done = np.array(exact, dtype=float) + np.array(computing)[:, None]
    # who is done with all iterations sends no more, as in a training
    before = done <= done[:, -1].min() * (1 + ROUNDING)
    np.testing.assert_allclose(found[before], done[before], rtol=ROUNDING)


@pytest.mark.parametrize("name", [*SYSTEMS, *EXCHANGES])
@pytest.mark.parametrize("environment", usually(["hetero_sys_b"], ["homo_b", "hetero_sys_b"]))
def test_no_iteration_is_shorter_than_its_parts(environment: str, name: str) -> None:
    cluster = narrow(environment)
    found = iteration(cluster, WORK, name)
    waits = (found.wait_s, found.rare_s)
    parts = zip(found.host_s, found.compute_s, *waits, strict=True)
    assert found.iteration_s == pytest.approx([sum(each) for each in parts])
    assert min(found.wait_s) >= 0
    rates = zip(found.batches, found.iteration_s, strict=True)
    assert found.samples_per_s == pytest.approx(sum(batch / each for batch, each in rates))
    if name not in ("ako", "dlion", "ad_psgd", "noloco", "gosgd"):
        # nobody's queue grows, so what is sent is carried
        for worker, node in enumerate(cluster.nodes):
            for way, capacity in enumerate((node.uplink, node.downlink)):
                assert capacity is not None
                carried = sum(
                    size_bytes / found.iteration_s[pair[0]]
                    for pair, size_bytes in found.link_bytes.items()
                    if pair[way] == worker
                )
                assert 8 * carried <= capacity.at(0.0) * (1 + 1e-3)


@pytest.mark.parametrize("environment", usually(["homo_a"], ["homo_a", "homo_b", "homo_c"]))
def test_equal_workers_compute_then_send(environment: str) -> None:
    cluster = ENVIRONMENTS[environment].cluster()
    work = Workload(CIPHER_BYTES, 0.02, 0.3)
    node = cluster.nodes[0]
    assert node.uplink is not None
    own_s = 0.3 + 32 * 0.02 / node.speed_over_time.at(0.0)
    sending_s = 5 * 8 * CIPHER_BYTES / node.uplink.at(0.0)
    found = iteration(cluster, work, "baseline")
    assert found.iteration_s == pytest.approx((own_s + sending_s,) * 6, rel=ROUNDING)
    assert found.wait_s == pytest.approx((sending_s,) * 6, rel=ROUNDING)


@pytest.mark.parametrize(
    "name",
    usually(["hop", "gaia"], ["baseline", "hop", "gaia", "choco_sgd", "moshpit_sgd"]),
)
@pytest.mark.parametrize("environment", usually(["hetero_sys_a"], ["hetero_sys_a", "regions"]))
def test_the_mean_is_that_of_a_long_training(environment: str, name: str) -> None:
    cluster, count = narrow(environment), 50 * 24 if name == "moshpit_sgd" else 200
    rows = first_iterations(cluster, WORK, name, count).filter(pl.col("iteration") >= count // 2)
    means = rows.group_by("node", maintain_order=True).agg(
        (pl.col("at_s").max() - pl.col("at_s").min()) / (pl.len() - 1)
    )
    found = iteration(cluster, WORK, name)
    expected = means.sort("node")["at_s"].to_list()
    assert found.iteration_s == pytest.approx(expected, rel=0.01)


def test_a_measured_share_is_sent() -> None:
    for name, share in SHARES.items():
        each = set(iteration(narrow("homo_b"), WORK, name).link_bytes.values())
        assert max(each) == pytest.approx(min(each)) == pytest.approx(share * WORK.model_bytes)


def test_capacities_that_links_share_are_shared_by_large_models_too() -> None:
    def where(carries: float) -> Cluster:
        channel = SharedCapacity(1e7 * carries)
        return full_mesh(4, Link(1e7 * carries, shared=(channel,)))

    small = iteration(where(WORK.model_bytes / CIPHER_BYTES), WORK, "baseline")
    large = iteration(where(1.0), replace(WORK, model_bytes=CIPHER_BYTES), "baseline")
    assert large.iteration_s == pytest.approx(small.iteration_s, rel=1e-6)
    sending_s = 12 * 8 * CIPHER_BYTES / 1e7
    assert large.wait_s == pytest.approx((sending_s,) * 4, rel=1e-6)


def _never(progress: Progress) -> bool:
    return progress.iteration < 3


def _all_but_the_first(progress: Progress) -> bool:
    return progress.iteration < 3 or 0 in progress.newest


def waiting(until: Callable[[Progress], bool]) -> System:
    return replace(BASELINE, synch_training=until)


def halted(what: str) -> Cluster:
    nodes = [Node("a", **{what: [(0, 0), (5, 1.0)]}), Node("b")]  # type: ignore[arg-type]
    return meshed(nodes, Link(1e6))


GOOD = {"cluster": narrow("homo_b"), "workload": WORK, "system": "gaia"}
test_refused = refusals(
    iteration,
    GOOD,
    {
        "cluster": {
            "give a Cluster": ["homo_b"],
            "one worker": [Cluster([Node("a")])],
            "a has a speed of 0 at 0 s": [halted("speed")],
            "the uplink of a carries nothing at 0 s; give it a bandwidth": [halted("uplink_bps")],
        },
        "system": {
            "Did you mean 'dlion'": ["dlyon"],
            "all workers wait, and nothing is on its way": [waiting(_never)],
            "waits for ever while others go on; synch_training": [waiting(_all_but_the_first)],
        },
        "seed": {"seed is -1": [-1]},
    },
)
test_other_types_refused = refusals(
    iteration,
    GOOD,
    {
        "workload": {"workload is 5": [5]},
        "system": {"system is 5; give the name of one of SYSTEMS": [5]},
    },
    TypeError,
)
test_workload_refused = refusals(
    Workload,
    {"model_bytes": 1e3, "sample_s": 1.0},
    {"local_batch": {"local_batch is 1000000000000; it must be at most 1e": [10**12]}},
)
test_first_iterations_refused = refusals(
    first_iterations,
    {**GOOD, "iterations": 1},
    {"iterations": {"iterations is 0": [0]}, "share": {"share is 0": [0]}},
)
