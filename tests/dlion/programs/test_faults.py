"""Whatever fails, runs end; who is slow is waited for, who is gone is not; no progress is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from tests.dlion.trainings import DIGITS, SAMPLE_S, batching, mesh, often, setup
from tests.long import usually
from workbench import training
from workbench.dlion import Setup, System, Trained, TrainingError, Transfer, asynchronous, train
from workbench.dlion.algorithms import SYSTEMS
from workbench.dlion.algorithms.baseline import whole
from workbench.dlion.algorithms.synchronisation import synchronous
from workbench.runtime import Crash, Fault, LinkDown, Lossy, Restart, draw_faults

SPEEDS = (1.0, 1.0, 0.5)
PATIENCE_S = 0.1
ITERATIONS = 20
FAULTS: dict[str, list[Fault]] = {
    "crash": [Crash(1, 0.05)],
    "restart": [Crash(1, 0.05), Restart(1, 0.2)],
    "restart before anyone notices": [Crash(1, 0.05), Restart(1, 0.06)],
    "two restart": [Crash(0, 0.05), Crash(1, 0.05), Restart(0, 0.1), Restart(1, 0.1)],
    "all but one": [Crash(0, 0.05), Crash(1, 0.07)],
    "link down": [LinkDown(0, 1, 0.03, 0.3)],
    "links down for good": [LinkDown(0, 1, 0.03), LinkDown(2, 1, 0.03)],
    "lossy": [Lossy(0, 1, 0.5), Lossy(1, 2, 0.3), Lossy(2, 0, 0.9)],
}
each_system = pytest.mark.parametrize("name", usually(("baseline", "dlion"), SYSTEMS))


def faulty(**changes: Any) -> Setup:
    given = {"iterations": ITERATIONS, "patience_s": PATIENCE_S, "mbps": 2.0}
    return setup(*SPEEDS, **{**given, **changes})


def check(found: Trained, faults: list[Fault], waits: int) -> None:
    """What must hold whatever failed."""
    assert found.run.ended == "done"
    crashed = {one.node for one in faults if isinstance(one, Crash)}
    back = {one.node for one in faults if isinstance(one, Restart)}
    assert found.run.results.keys() == {0, 1, 2} - (crashed - back)
    for node in range(3):
        rows = found.iterations.filter(node=node)
        if node not in crashed:
            assert rows["iteration"].to_list() == list(range(1, ITERATIONS + 1))
            # Timing of batches takes four and eight and sixteen samples more.
            # A peer may wait for another that is gone.
            most_s = waits * 2 * PATIENCE_S + (24 + 28) * SAMPLE_S / SPEEDS[node]
            assert rows["at_s"].diff().max() <= most_s + 1e-9  # type: ignore[operator]
        if node in back:
            again = rows.filter(pl.col("restarts") > 0)["iteration"].to_list()
            assert again == list(range(ITERATIONS + 1 - len(again), ITERATIONS + 1))
            assert found.run.results[node] == ITERATIONS  # peers may have finished before
    assert np.isfinite(found.weights).all()


@each_system
@pytest.mark.parametrize("kind", FAULTS)
def test_all_that_are_left_finish(name: str, kind: str) -> None:
    system = often(name)
    found = train(faulty(), system, faults=FAULTS[kind])
    check(found, FAULTS[kind], waits=2 if name == "dlion" else 1)


@pytest.mark.parametrize("name", ["baseline", "hop", "gaia"])
@pytest.mark.parametrize("speeds", [(1.0, 1.0), (1.0, 0.1), (1.0, 10.0)])
def test_a_time_limit_above_one_and_a_half_transfers_loses_no_gradient(
    name: str, speeds: tuple[float, float]
) -> None:
    """Heartbeats wait behind gradients, which take as long as the faster one computes, or less."""
    of = setup(*speeds, iterations=8)
    gradient_s = 8 * SAMPLE_S
    of = replace(of, cluster=mesh(*speeds, mbps=2600 * 8 / gradient_s / 1e6))
    without = train(of, often(name))
    limited = train(replace(of, patience_s=1.51 * gradient_s), often(name))
    assert np.array_equal(limited.weights, without.weights)
    assert limited.transfers.equals(without.transfers)


@pytest.mark.parametrize("name", usually(("gaia",), SYSTEMS))
@pytest.mark.parametrize("before_s", [0.0005, 0.02])
@pytest.mark.parametrize("links", [((0, 1), (1, 0)), ((2, 0), (2, 1))])
def test_an_outage_at_the_end_ends_no_later_than_a_few_patiences(
    name: str, before_s: float, links: tuple[tuple[int, int], ...]
) -> None:
    of, system = faulty(iterations=8), often(name)
    end_s = train(of, system).run.end_s
    faults = [LinkDown(*link, end_s - before_s, end_s + 0.5 * PATIENCE_S) for link in links]
    found = train(of, system, faults=faults)
    assert found.run.ended == "done"
    assert found.run.end_s < end_s + 4 * PATIENCE_S


def test_an_answer_that_is_lost_is_not_waited_for() -> None:
    """AD-PSGD's peer computes on and never waits itself."""
    faults = [LinkDown(1, 0, 0.1, 0.11), LinkDown(0, 1, 0.1, 0.11)]
    found = train(setup(1.0, 0.9, iterations=60, patience_s=0.05), "ad_psgd", faults=faults)
    assert sum(use.lost for use in found.run.links) > 0
    assert found.run.end_s < 60 * 8 * SAMPLE_S / 0.9 + 8 * PATIENCE_S


@each_system
def test_who_is_back_goes_on_in_its_peers_iteration(name: str) -> None:
    crash_s, back_s = 0.12, 0.25
    found = train(
        faulty(iterations=40), often(name), faults=[Crash(1, crash_s), Restart(1, back_s)]
    )
    rows = found.iterations
    peers = rows.filter(pl.col("node") != 1, pl.col("at_s") <= back_s)
    latest = peers.group_by("node").agg(pl.col("iteration").max())["iteration"]
    first = rows.filter(node=1, restarts=1).row(0, named=True)
    assert first["iteration"] > min(latest.to_list())
    assert first["at_s"] <= back_s + PATIENCE_S + 0.05
    assert rows.filter(node=1)["iteration"].to_list()[-1] == 40


@pytest.mark.parametrize("kind", ["crash", "restart", "lossy", "links down for good"])
def test_the_global_batch_is_shared_by_those_there(kind: str) -> None:
    """Who does not hear the others' power must not learn from all samples itself."""
    system = System("x", whole, asynchronous, batching=batching(period=4))
    found = train(faulty(iterations=40), system, faults=FAULTS[kind])
    samples = found.iterations
    if kind == "crash":  # two of equal and half the power share 24 samples
        late = samples.filter(pl.col("iteration") > 35).sort("iteration", "node")
        assert late["samples"].to_list() == [16, 8] * 5
    elif kind != "links down for good":
        assert samples["samples"].max() < 24  # type: ignore[operator]
    if kind == "restart":
        late = samples.filter(pl.col("iteration") > 35).sort("iteration", "node")
        assert late["samples"].to_list() == [10, 9, 5] * 5


def test_who_is_back_does_not_wait_for_what_was_measured_before() -> None:
    system = System("x", whole, asynchronous, batching=batching(period=1000))
    found = train(faulty(iterations=40), system, faults=[Crash(1, 0.15), Restart(1, 0.3)])
    first = found.iterations.filter(node=1, restarts=1).row(0, named=True)
    assert first["at_s"] < 0.3 + 0.1 * PATIENCE_S + 2600 * 8 / 2e6 + 10 * SAMPLE_S
    assert first["samples"] == found.iterations.filter(node=1)["samples"][0]


@pytest.mark.parametrize("seed", usually(range(1), range(3)))
@each_system
def test_drawn_faults(name: str, seed: int) -> None:
    of = faulty(iterations=30)
    faults = draw_faults(
        seed, of.network, until_s=0.5, crash_every_s=0.4, down_s=0.1, slow_every_s=0.5,
        link_down_every_s=1.0,
    )  # fmt: skip
    assert {type(one) for one in faults} >= {Crash, Restart}
    found = train(of, often(name), faults=faults)
    assert found.run.ended == "done"
    assert found.run.results == dict.fromkeys(range(3), 30)


def test_when_nobody_is_left() -> None:
    with pytest.raises(TrainingError, match=r"nobody is left: all nodes crashed") as raised:
        train(faulty(), "baseline", faults=[Crash(node, 0.1) for node in range(3)])
    assert isinstance(raised.value.trained, Trained)
    done = raised.value.trained.iterations["at_s"].to_list()
    assert 0 < max(done) <= 0.1
    assert raised.value.trained.evaluations["node"].to_list() == [0, 1, 2]  # once each


class TestBuffers:
    """Batch normalisation."""

    @staticmethod
    def model() -> torch.nn.Module:
        return torch.nn.Sequential(
            torch.nn.Flatten(), torch.nn.Linear(64, 10), torch.nn.BatchNorm1d(10)
        )

    def trained(self, system: System) -> list[torch.nn.BatchNorm1d]:
        of = Setup(
            self.model, DIGITS, cluster=mesh(1, 1), local_batch=8, sample_s=SAMPLE_S, iterations=4
        )
        built = of.programs(system)
        training.run(built)
        programs: list[Any] = built.programs
        return [program.state.value.flat.module[2] for program in programs]

    def test_timing_batches_leaves_them(self) -> None:
        timed = self.trained(System("timed", whole, synchronous, batching=batching(period=2)))
        plain = self.trained(System("plain", whole, synchronous))
        for one, other in zip(timed, plain, strict=True):
            assert one.num_batches_tracked == 4
            assert torch.equal(one.running_mean, other.running_mean)  # type: ignore[arg-type]

    def test_they_move_with_the_weights(self) -> None:
        copied = self.trained(
            System("x", lambda gradient, links: {}, synchronous, transfer=Transfer(4, 1.0))
        )
        assert torch.equal(*(one.running_mean for one in copied))  # type: ignore[arg-type]


def test_a_worker_that_restarts_goes_on_in_the_epoch_of_the_others() -> None:
    """Of six epochs of four iterations each, the first ends while it is gone."""
    faults = [Crash(1, 0.05), Restart(1, 0.2)]
    found = train(faulty(iterations=24), "baseline", faults=faults)
    assert found.iterations.filter(node=1)["iteration"].to_list() == [1, 2, *range(7, 25)]
    own, other = (found.epochs.filter(node=node)["epoch"].to_list() for node in (1, 0))
    assert (own, other) == ([2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6])
    assert found.epochs.filter(epoch=2).sort("node")["samples"].to_list() == [32, 16, 32]
