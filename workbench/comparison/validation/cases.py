"""Trainings of every system that are predicted, simulated and measured with processes.

>>> case = cases()["dynacomm, alexnet_small, 20 Mbit/s, 10 ms, layer_by_layer"]
>>> f"{case.predicted_s:.4f} {case.simulated.iteration_s:.4f} {case.predicted_by}"
'0.5246 0.5246 cost model'

`Case.measure` runs the same programs as processes of this machine. They learn from a few digits,
since only their time is looked at, and whether their weights are the simulation's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from workbench import datasets, dlion, dynacomm, edgegossip, hiertrain, training
from workbench.clusters import Cluster, Link, Node, full_mesh, load_constants
from workbench.comparison.methods.rounds import peer
from workbench.datasets import Dataset, partition
from workbench.decentralised import Gossip, GossipSetup, complete, ring
from workbench.dlion.costs.environments import ENVIRONMENTS, STATED
from workbench.dlion.costs.iteration import Workload, first_iterations
from workbench.dynacomm.training import PlanOptions
from workbench.edgegossip.costs.course import course, total_s
from workbench.edgegossip.costs.platforms import exchange_s
from workbench.olpb.algorithms.assignment import assign
from workbench.olpb.algorithms.scans import SCANS
from workbench.olpb.algorithms.schedules import Schedule, schedule
from workbench.olpb.costs.arithmetic import as_arithmetic_costs, network_elements
from workbench.olpb.costs.backward import as_paper_counts, subtasks
from workbench.olpb.costs.subtasks import Node as PoolNode
from workbench.olpb.costs.subtasks import Pool, Subtask
from workbench.olpb.costs.timing import Work, scan_timing
from workbench.olpb.programs.cluster import cluster_of
from workbench.olpb.programs.scan import BackwardPasses
from workbench.profiles import profile_model
from workbench.runtime import Run, simulate
from workbench.runtime.measured import measure
from workbench.training import RunOptions, fixed_threads
from workbench.utils.checks import check_range

PLACES = 6
"""Most processes of a run."""

REGIMES = ("computing", "bandwidth", "latency", "contended")


class Outcome(NamedTuple):
    """A training that has run; `weights` by node, None where none are learnt."""

    iteration_s: float
    weights: list[NDArray[Any]] | None
    run: Run
    cluster: Cluster


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One way of training in one setting.

    Attributes
    ----------
    system, setting, choice
        Package; model, links and whatever else does not vary with the choice, in a line; planner,
        policy or system that is compared with others in this setting.
    iterations
        Of the training.
    run
        Trains with a trace, simulated, or if true measured.
    predict, predicted_by
        Seconds of an iteration without learning, and what says so.
    ordered
        Whether weights depend on the order in which messages arrive.
    duplex
        Whether a pair of nodes sends both ways at the same time; else one waits for the other.
    """

    system: str
    setting: str
    choice: str
    iterations: int
    run: Callable[[bool], Outcome]
    predict: Callable[[], float]
    predicted_by: str = "cost model"
    ordered: bool = False
    duplex: bool = False

    @property
    def name(self) -> str:
        """Unique: ``"dynacomm, 20 Mbit/s, ibatch"``."""
        return ", ".join((self.system, self.setting, self.choice))

    @cached_property
    def predicted_s(self) -> float:
        """Seconds of an iteration, predicted."""
        return self.predict()

    @cached_property
    def simulated(self) -> Outcome:
        """The simulated training, kept."""
        return self.run(False)

    def measure(self) -> Outcome:
        """Train with processes of this machine; starts Ray unless a `session` is open."""
        return self.run(True)

    @cached_property
    def parts_s(self) -> dict[str, float]:
        """Seconds that an iteration needs of its busiest node and pair of nodes, by `REGIMES`.

        Counted in the simulated run: computing, bytes over bandwidth, and overheads of messages.
        """
        run, cluster = self.simulated.run, self.simulated.cluster
        parts = {regime: defaultdict[Any, float](float) for regime in REGIMES[:3]}
        assert run.trace is not None
        for node, lane, _, start_s, end_s, size, kind in run.trace.frame.iter_rows():
            if kind == "work":
                parts["computing"][node] += end_s - start_s
            elif size:  # requests cost nothing
                target = lane.removeprefix("to ")
                pair = (node, target) if self.duplex else tuple(sorted((node, target)))
                link = cluster.link(node, target)
                parts["bandwidth"][pair] += link.transfer_s([size])
                parts["latency"][pair] += link.overhead_s
        return {
            regime: max(seconds.values(), default=0.0) / self.iterations
            for regime, seconds in parts.items()
        }

    @property
    def naive_s(self) -> float:
        """The baseline: computing of the busiest node, plus bytes over bandwidth."""
        return self.parts_s["computing"] + self.parts_s["bandwidth"]

    @property
    def regime(self) -> str:
        """What an iteration needs most of; ``contended`` where links share an interface."""
        if any(node.uplink_bps or node.downlink_bps for node in self.simulated.cluster.nodes):
            return "contended"
        return max(self.parts_s, key=lambda regime: self.parts_s[regime])


@cache
def cases() -> dict[str, Case]:
    """Every case by its name; a case keeps what it has predicted and simulated."""
    planners, tiers = dynacomm.PLANNERS, hiertrain.algorithms.FAST
    made = [
        *(of_dynacomm(planner, mbps) for mbps in (50.0, 20.0, 10.0) for planner in planners),
        *(of_dynacomm(planner, 50.0, 0.05) for planner in ("layer_by_layer", "dynacomm")),
        *(of_hiertrain(planner, mbps) for mbps in (1.5, 3.5) for planner in tiers),
        *(of_hiertrain("hiertrain", mbps) for mbps in (2.5, 5.0)),
        *(of_gossip(mbps, nodes, shared=nodes == 4) for mbps in (5.0, 20.0) for nodes in (3, 4)),
        of_gossip(5.0, 5),
        of_gossip(20.0, 3, overhead_s=0.2),
        *(of_edgegossip(choice, mbps) for mbps in (5.0, 20.0) for choice in BALANCING),
        *(make(system) for system in DLIONS for make in (of_dlion, of_hetero_sys_a)),
        *(of_counted_scan(model) for model in ("cifarnet", "squeezenet")),
        *(of_scan_by_arithmetic(scan) for scan in SCANS),
    ]
    return {case.name: case for case in made}


def trained(
    setup: Any,
    how: Any,
    iterations: int,
    measured: bool,
    *,
    seconds: Callable[[Any], float] = lambda done: float(done.run.end_s),
) -> Outcome:
    """Train what a setup says; `seconds` of the result are those of all iterations."""
    with fixed_threads():
        programs = setup.programs(how)
    done = training.run(programs, RunOptions(trace=True, measured=measured))
    weights = done.weights if isinstance(done.weights, tuple | list) else (done.weights,)
    return Outcome(
        seconds(done) / iterations,
        [np.asarray(weight) for weight in weights],
        done.run,
        programs.cluster,
    )


@cache
def digits(count: int, model: str) -> Dataset:
    """The digits in the shape that a model takes: `count` to train on, 16 to test on."""
    shape = cast("tuple[int, ...]", profile_model(model).input_shape)
    return datasets.load("digits").fitted(shape).limit(train=count, test=16)


def of_dynacomm(
    planner: str,
    mbps: float,
    overhead_s: float = 0.01,
    *,
    batch_size: int = 32,
    workers: int = 2,
    seed: int = 0,
) -> Case:
    """DynaComm: workers, which compute each layer when their plan has it, and a server."""
    check_range("workers", workers, 1, PLACES - 1)
    check_range("batch_size", batch_size, 1, 64)
    model, iterations = "alexnet_small", 4
    setup = dynacomm.Setup(
        model,
        digits(workers * batch_size * iterations, model),
        Link(mbps * 1e6, overhead_s),
        workers=workers,
        epochs=1,
        batch_size=batch_size,
        flops_per_s=1e9,
        seed=seed,
        by_layer=True,
    )
    costs = setup.costs
    return Case(
        system="dynacomm",
        setting=f"{model}, {mbps:g} Mbit/s, {overhead_s * 1e3:g} ms",
        choice=planner,
        iterations=iterations,
        run=partial(trained, setup, PlanOptions(planner, None), iterations),
        predict=lambda: dynacomm.iteration(costs, dynacomm.PLANNERS[planner](costs)).total_s,
    )


def of_hiertrain(planner: str, mbps: float) -> Case:
    """HierTrain: device, edge and cloud, at a bandwidth between edge and cloud of its Fig. 6.

    Deviation: its machines and its AlexNet do not fit this machine, so tiers compute at rates of
    which three fit, and the network is `alexnet_small`.
    """
    model, batch_size, iterations = "alexnet_small", 16, 4
    problem = hiertrain.problem_of(
        profile_model(model),
        flops_per_s={"device": 1e8, "edge": 5e8, "cloud": 2.5e9},
        device_edge_bps=5e6,
        edge_cloud_bps=mbps * 1e6,
        batch=batch_size,
        overhead_s=0.005,
    )
    policy = hiertrain.PLANNERS[planner](problem)
    samples = digits(batch_size * iterations, model)
    setup = hiertrain.Setup(model, samples, problem, epochs=1)
    return Case(
        system="hiertrain",
        setting=f"{model}, {mbps:g} Mbit/s",
        choice=planner,
        iterations=iterations,
        run=partial(trained, setup, policy, iterations),
        predict=lambda: hiertrain.iteration(problem, policy).total_s,
    )


def of_gossip(mbps: float, nodes: int, *, shared: bool = False, overhead_s: float = 0.005) -> Case:
    """Gossip: a ring of nodes of which each is faster than the last; an iteration is an epoch.

    Or a mesh in which the links of a node have `shared` uplinks. The prediction is a dry run: nodes
    compute, send a model's bytes to their peers, and wait.
    """
    model, epochs = "lenet5", 4
    uplink_bps = mbps * 1e6 if shared else None
    machines = [Node(f"node{at}", speed=1 + at / 2, uplink_bps=uplink_bps) for at in range(nodes)]
    graph = complete(nodes) if shared else ring(nodes)
    samples = digits(48 * nodes, model)
    setup = GossipSetup(
        model,
        samples,
        partition.by_size(samples.y_train, [1] * nodes, seed=0),
        full_mesh(machines, Link(mbps * 1e6, overhead_s)),
        exchange=Gossip(graph),
        batch_size=16,
        epochs=epochs,
        flops_per_s=1e9,
        evaluate_every=epochs,
    )

    def predict() -> float:
        size = float(setup.profile.param_bytes)
        seconds = zip(setup.held, setup.seconds_per_sample, strict=True)
        programs = [
            peer(sorted(graph.neighbors(node)), epochs, len(shard) * sample_s, size)
            for node, (shard, sample_s) in enumerate(seconds)
        ]
        return simulate(setup.cluster, programs).end_s / epochs

    where = f"mesh of {nodes}, shared uplinks" if shared else f"ring of {nodes}"
    return Case(
        system="gossip",
        setting=f"{model}, {where}, {mbps:g} Mbit/s, {overhead_s * 1e3:g} ms",
        choice="an epoch",
        iterations=epochs,
        run=partial(trained, setup, None, epochs),
        predict=predict,
        predicted_by="dry run",
        duplex=True,
    )


BALANCING = {"plain": None, "balanced": edgegossip.EdgeGossip(ratio=5.0, operations_per_s=1e8)}


def of_edgegossip(choice: str, mbps: float) -> Case:
    """EdgeGossip: epochs of three unequal platforms, with balancing and without.

    With balancing, platforms estimate their speed by the seconds that an epoch took, so that from
    the second epoch on what they learn from, and so their weights, depend on the clock.
    """
    model, epochs, how = "lenet5", 3, BALANCING[choice]
    sample_s = {"laptop": 0.002, "board": 0.004, "phone": 0.008}
    platforms = [
        edgegossip.Platform(
            name, edgegossip.Predictor("linear", 4, 1e7, 1e8, (1.0, 0.5, 0.5), seconds)
        )
        for name, seconds in sample_s.items()
    ]
    setup = edgegossip.Setup(
        model,
        digits(96 * len(platforms), model),
        platforms,
        uplink_bps=mbps * 1e6,
        overhead_s=0.005,
        batch_size=16,
        epochs=epochs,
        evaluate_every=epochs,
    )

    def predict() -> float:
        points, size = list(map(len, setup.held)), setup.profile.param_bytes
        sent_s = exchange_s(setup.nodes - 1, size, setup.uplink_bps, setup.overhead_s)
        counted = None if how is None else replace(how, features=setup.dataset.x_train[0].size)
        return total_s(course(setup.platforms, points, epochs, sent_s, counted)) / epochs

    return Case(
        system="edgegossip",
        setting=f"{model}, {len(platforms)} platforms, {mbps:g} Mbit/s",
        choice=choice,
        iterations=epochs,
        run=partial(trained, setup, how, epochs),
        predict=predict,
        ordered=how is not None,
        duplex=True,
    )


DLIONS = ("baseline", "max10", "dlion")


def of_dlion(system: str) -> Case:
    """DLion, and others that exchange gradients, on four unequal workers."""
    model = "lenet5"
    machines = [Node(f"worker{at}", speed=1 + at) for at in range(4)]
    setup = dlion.Setup(
        model,
        digits(384, model),
        cluster=full_mesh(machines, Link(20e6, 0.002)),
        iterations=12,
        local_batch=16,
        flops_per_s=2e8,
        evaluate_every=120,
    )
    return _of_dlion(system, f"{model}, {len(machines)} workers, 20 Mbit/s", setup)


def of_hetero_sys_a(system: str) -> Case:
    """The same on Hetero SYS A, the paper's six workers (Table 3), at a sixth of its seconds.

    Constants are the stated, assumed and fitted ones. Links are slower by the bytes of LeNet-5 over
    those of Cipher.
    """
    model, batch_size, times_as_fast = "lenet5", 4, 6.0
    constants = load_constants("dlion", "own")
    own, timed = (profile_model(name).param_bytes for name in (model, "cipher"))
    batch_s = STATED["batches"]["initial_lbs"] * constants["sample_ms"] / 1e3
    setup = dlion.Setup(
        model,
        digits(384, model),
        cluster=ENVIRONMENTS["hetero_sys_a"].cluster(
            parallel_share=constants["parallel_share"],
            link_share=constants["link_share"],
            carries=times_as_fast * own / timed,
        ),
        iterations=4,
        local_batch=batch_size,
        sample_s=batch_s / batch_size / times_as_fast,
        host_s=constants["host_ms"] / 1e3 / times_as_fast,
        evaluate_every=40,
    )
    return _of_dlion(system, f"{model}, Hetero SYS A", setup)


def _of_dlion(system: str, setting: str, setup: dlion.Setup) -> Case:
    """The prediction is a dry run; shares of gradients are the stored ones."""
    iterations = setup.iterations
    assert iterations is not None

    def last_s(frame: Any) -> float:
        return float(frame["at_s"].max())

    def predict() -> float:
        workload = Workload(
            setup.profile.param_bytes, setup.seconds_per_sample[0], setup.host_s, setup.local_batch
        )
        about: dict[str, Any] = {"seed": setup.seed, "samples": setup.samples}
        done = first_iterations(setup.network, workload, system, iterations, **about)
        return last_s(done) / iterations

    how, seconds = dlion.SYSTEMS[system], lambda done: last_s(done.iterations)
    return Case(
        system="dlion",
        setting=setting,
        choice=system,
        iterations=iterations,
        run=partial(trained, setup, how, iterations, seconds=seconds),
        predict=predict,
        predicted_by="dry run",
        ordered=True,
        duplex=True,
    )


def of_counted_scan(model: str) -> Case:
    """OLPB: a scan of a model as the paper counts: gradients each once, messages a delay.

    On four nodes as fast as they need to be for a backward pass on one of them to take 1.2 s.
    """
    elements = subtasks(model, 10, levels=2)
    flops_per_s = sum(element.backward_flops for element in elements) / 1.2
    pool = Pool((PoolNode(flops_per_s),) * 4, 0.001, 0.02)
    costs = partial(as_paper_counts, elements=elements)
    return _of_scan(f"{model}, 4 nodes, 20 ms", "hillis_steele", elements, pool, costs)


def of_scan_by_arithmetic(scan: str) -> Case:
    """OLPB: a scan of the Jacobians of LeNet-5, sparse as they are, with their bytes."""
    model = "lenet5"
    jacobians = network_elements(model)
    pool = Pool((PoolNode(3e7, None, 20e6),) * 4, 0.001, 0.02)
    costs = partial(as_arithmetic_costs, elements=jacobians)
    elements = subtasks(model)[: len(jacobians)]
    return _of_scan(f"{model} by arithmetic, 4 nodes, 20 Mbit/s", scan, elements, pool, costs)


def _of_scan(
    setting: str,
    scan: str,
    elements: tuple[Subtask, ...],
    pool: Pool,
    costs: Callable[[Schedule], Work],
) -> Case:
    """Backward passes by a scan on a pool and its server, without learning.

    A message's delay, and the time of its bytes where nodes have a bandwidth, are kept by its
    receiver, as the paper's nodes do; its bytes are real.
    """
    iterations = 2

    def scanned(measured: bool) -> Outcome:
        passes = BackwardPasses(elements, pool, iterations, scan=scan, costs=costs, answer_s=5.0)
        cluster, run = cluster_of(pool), measure if measured else simulate
        done = run(cluster, passes.programs, trace=True)
        counts = done.results[len(pool.nodes)]  # of the server
        return Outcome(sum(count.backward_s for count in counts) / iterations, None, done, cluster)

    def longest_path_s() -> float:
        planned = schedule(scan, len(elements), assign(elements, pool), exclusive=True)
        return scan_timing(planned, costs(planned), pool).seconds

    return Case(
        system="olpb",
        setting=setting,
        choice=scan,
        iterations=iterations,
        run=scanned,
        predict=longest_path_s,
        predicted_by="longest path",
    )
