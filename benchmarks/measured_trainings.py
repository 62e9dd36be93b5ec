"""How far predicted and simulated seconds of an iteration are from those of real processes.

``python benchmarks/measured_trainings.py`` trains LeNet-5 on three to five processes on this
machine: DynaComm's planners at three bandwidths, HierTrain's policies, gossip and DLion. Nodes
compute for as long as the model says, so that what is tested are links, order and waiting, not the
times of layers; constants are those below, and nothing is fitted. Status 1 if the median error of
the simulation is over 5 %, or one in twenty over 10 %, where an iteration takes 100 ms or more; or
if weights differ from the simulation's where they do not depend on the order of arrival.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench import datasets, decentralised, dlion, dynacomm, hiertrain, training
from workbench.clusters import Link, Node, full_mesh
from workbench.datasets import partition
from workbench.dynacomm.training import Planned
from workbench.profiles import profile_model
from workbench.runtime.measured import MeasuredRun, session
from workbench.training import RunOptions

MEDIAN_BAR, P95_BAR, FROM_S = 0.05, 0.10, 0.1
DIGITS = datasets.load("digits").fitted((1, 28, 28)).limit(train=384)
SLOW = 2e8
"""FLOP/s of the slowest node: a step on this machine is shorter than it may be."""


@dataclass(frozen=True)
class Case:
    """A training, with the seconds that its cost model predicts for an iteration, if it has one."""

    name: str
    setup: Any
    how: Any
    iterations: int
    predicted_s: float | None = None
    ordered: bool = False  # weights depend on the order of arrival

    def run(self) -> tuple[float, float, bool, MeasuredRun]:
        """Seconds of an iteration, simulated and measured; whether weights are the same."""
        simulated = training.train(self.setup, self.how)
        measured = training.train(self.setup, self.how, RunOptions(measured=True))
        same = all(map(np.array_equal, _weights(simulated), _weights(measured)))
        assert isinstance(measured.run, MeasuredRun)
        times_s = simulated.run.end_s / self.iterations, measured.run.end_s / self.iterations
        return *times_s, same, measured.run


def _weights(trained: Any) -> list[Any]:
    found = trained.weights
    return [np.asarray(each) for each in (found if isinstance(found, tuple) else (found,))]


def cases() -> Iterator[Case]:
    """All of them."""
    for mbps in (20, 50, 200):
        for name, planner in dynacomm.PLANNERS.items():
            link = Link(mbps * 1e6, overhead_s=0.01)
            setup = dynacomm.Setup(
                "lenet5", DIGITS, link, workers=2, epochs=1, batch_size=32, flops_per_s=SLOW
            )
            predicted_s = dynacomm.iteration(setup.costs, planner(setup.costs)).total_s
            how = Planned(name, None)
            yield Case(f"dynacomm, {mbps} Mbit/s, {name}", setup, how, 6, predicted_s)
    for mbps in (20, 100):
        problem = hiertrain.problem_of(
            profile_model("lenet5"),
            flops_per_s={"device": SLOW, "edge": 4 * SLOW, "cloud": 20 * SLOW},
            device_edge_bps=mbps * 1e6,
            edge_cloud_bps=mbps * 0.5e6,
            batch=64,
        )
        for name, plan in hiertrain.PLANNERS.items():
            policy = plan(problem)
            predicted_s = hiertrain.iteration(problem, policy).total_s
            trained = hiertrain.Setup("lenet5", DIGITS, problem, epochs=2)
            yield Case(f"hiertrain, {mbps} Mbit/s, {name}", trained, policy, 12, predicted_s)
    for nodes in (3, 5):
        speeds = [Node(f"node{index}", speed=1 + index) for index in range(nodes)]
        cluster = full_mesh(speeds, Link(20e6, 0.005))
        gossip = decentralised.GossipSetup(
            "lenet5",
            DIGITS,
            partition.by_size(DIGITS.y_train, [1] * nodes, seed=0),
            cluster,
            mixing=decentralised.metropolis_hastings(decentralised.ring(nodes)),
            batch_size=16,
            epochs=4,
            flops_per_s=SLOW,
            evaluate_every=4,
        )
        yield Case(f"gossip, {nodes} nodes, an epoch", gossip, None, 4)
    for name in ("baseline", "max10", "dlion"):
        workers = [Node(f"node{index}", speed=1 + index) for index in range(4)]
        exchanging = dlion.Setup(
            "lenet5",
            DIGITS,
            cluster=full_mesh(workers, Link(20e6, 0.002)),
            iterations=12,
            local_batch=16,
            flops_per_s=SLOW,
            evaluate_every=100,
        )
        yield Case(f"dlion, 4 nodes, {name}", exchanging, dlion.SYSTEMS[name], 12, ordered=True)


def main() -> int:
    """Run them in random order; 1 if a bar is missed."""
    listed = list(cases())
    random.Random(0).shuffle(listed)
    errors, missed = [], False
    with session(places=6):
        for case in listed:
            simulated_s, measured_s, same, run = case.run()
            error = simulated_s / measured_s - 1
            if measured_s >= FROM_S:
                errors.append(abs(error))
            wrong = not (same or case.ordered)
            missed |= wrong
            predicted = ""
            if case.predicted_s is not None:
                predicted = f"predicted {1e3 * case.predicted_s:.1f} ms "
                predicted += f"({case.predicted_s / measured_s - 1:+.2%}), "
            late, count = run.late["late"].sum(), run.late["count"].sum()
            print(
                f"{'MISSED' if wrong else '      '} {case.name}: measured "
                f"{1e3 * measured_s:.1f} ms, {predicted}simulated {1e3 * simulated_s:.1f} ms "
                f"({error:+.2%}), weights "
                f"{'the same' if same else 'of another order' if case.ordered else 'DIFFER'}; "
                f"{late} of {count} late, steal {run.steal:.1%}",
                flush=True,
            )
    median, p95 = np.median(errors), np.quantile(errors, 0.95)
    off = bool(median > MEDIAN_BAR or p95 > P95_BAR)
    print(
        f"{'MISSED' if off else 'met   '} {len(errors)} trainings of {1e3 * FROM_S:g} ms an "
        f"iteration or more, on one machine: median error {median:.2%} (bar {MEDIAN_BAR:.0%}), "
        f"p95 {p95:.2%} (bar {P95_BAR:.0%}), worst {max(errors):.2%}",
        flush=True,
    )
    return int(missed or off)


if __name__ == "__main__":
    sys.exit(main())
