"""Trainings without learning: the workers' own programs on the simulator, with sizes as gradients.

Work takes its virtual seconds and computes nothing. A large model's gradient is a vector of
`VALUES` numbers, and links carry as much less as it is shorter, so that messages take as long. What
a `System` sends and waits for is thus what it does in a training, and a new system needs nothing
here.

The numbers are drawn (`STANDARD_DEVIATION`), so sizes that depend on a gradient's values, as of Max
N, are no better than these; the share that is sent can be given instead.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np

from workbench.clusters import Cluster, Link, Node, Schedule, load_calibration
from workbench.decentralised import recorder
from workbench.decentralised.gradient_exchange.part import Part, Values
from workbench.dlion.algorithms import SYSTEMS
from workbench.dlion.algorithms.global_batch import CONSTANT
from workbench.dlion.algorithms.synchronisation import MUST, asynchronous
from workbench.dlion.algorithms.system import System
from workbench.dlion.programs.program import WorkerProgram
from workbench.dlion.programs.worker import WorkerJob
from workbench.runtime import Context, DeadlockError, Message, Program, Synchronized
from workbench.runtime.messages import Transfer
from workbench.runtime.simulation import Simulation
from workbench.training import Sgd
from workbench.utils.checks import UserError

VALUES, LARGE = 1000, 30_000
"""Of a gradient that stands for one of at least `LARGE` values; a smaller one is as it is."""

VALUE_BYTES = 4  # of a number in single precision

STANDARD_DEVIATION = 1.0
"""Of the logarithm of a normal value's scale: gradients have longer tails than a normal law."""

SHARES: dict[str, float] = load_calibration("dlion_shares")["shares"]

SAME = 1e-4
"""Of a computation or the model: what two rounds that are taken to be the same differ by at most.

Some courses never repeat, but come nearer to one that does from round to round.
"""

PERIODS = range(1, 5)
"""Rounds after which a course may repeat."""

WINDOWS = (24, 12, 6, 2, 1)
"""Rounds of which the mean is taken where none repeat: whole periods of what is sent, if it has."""

UNUSED = 6000
"""Messages after which workers that never wait are no longer run until all links were used."""

LATER = 2000
"""Iterations after which no round is waited for any longer."""

STUCK = 300
"""Iterations of a worker as quick as the slowest after which one that has not begun a fourth is
stuck."""


def frozen(cluster: Cluster, at_s: float, factor: float) -> Cluster:
    """The cluster with capacities as they are at a time, all bandwidths times a factor."""

    def bps(what: str, rate: float | Schedule | None) -> float | None:
        now = rate.at(at_s) if isinstance(rate, Schedule) else rate
        if now == 0:
            raise UserError(f"{what} carries nothing at {at_s:g} s; give another at_s")
        return None if now is None else now * factor

    nodes = []
    for node in cluster.nodes:
        speed = node.speed_over_time.at(at_s)
        if speed == 0:
            raise UserError(f"{node.name} has a speed of 0 at {at_s:g} s; give another at_s")
        up = bps(f"the uplink of {node.name}", node.uplink)
        down = bps(f"the downlink of {node.name}", node.downlink)
        nodes.append(Node(node.name, node.cores, speed, up, down))
    links: dict[tuple[int | str, int | str], Link] = {}
    for source, target in permutations(range(len(cluster)), 2):
        link = cluster.link(source, target)
        sender, receiver = cluster.names[source], cluster.names[target]
        rate = bps(f"the link from {sender} to {receiver}", link.bandwidth)
        links[source, target] = replace(link, bandwidth_bps=cast(float, rate))
    return Cluster(nodes, links)


def sized_part(size_bytes: float) -> Part:
    """Part of a gradient of which only the size is known."""
    part: Any = Part(())
    vars(part)["size_bytes"] = size_bytes  # in place of the sum over its pieces
    return cast(Part, part)


def measured_share(system: System) -> float | None:
    """The share that was measured of the system in `SYSTEMS` that selects as this one does."""
    for name, share in SHARES.items():
        if SYSTEMS[name].generate_partial_gradients is system.generate_partial_gradients:
            return share
    return None


Window = tuple[int, int]
"""(first, last): a worker's iterations after the first, up to the last."""


class Vector(np.ndarray):
    """Parameters or gradients that nobody learns from, with a tensor's methods."""

    def numpy(self) -> Values:
        """The values."""
        return self.view(np.ndarray)

    def add_(self, other: Vector, alpha: float) -> None:
        """Learn nothing."""


class DryLearner:
    """What a worker's program does with its model, without learning.

    `best` is which worker has the least loss in an iteration; if None, losses are drawn. Gradients
    are the same at all workers, so that what is sent does not depend on their order.
    """

    def __init__(
        self, run: DryRun, node: int, values: int, best: Callable[[int], int] | None
    ) -> None:
        self.run, self.node, self.best, self.flat = run, node, best, self
        self.random, random = np.random.default_rng(node), np.random.default_rng(0)
        scales = np.exp(STANDARD_DEVIATION * random.normal(size=values))
        self.gradients = (random.normal(size=values) * scales).astype(np.float32).view(Vector)
        self.parameters = np.ones(values, np.float32).view(Vector)

    def gradient(self, batch: Values, updates: object = ()) -> float:
        """Note that an iteration has begun; its loss says who is the best."""
        began_s = self.run.began_s[self.node]
        began_s.append(self.run.simulation.env.now - self.run.workload.host_s)
        if self.best is None:
            return float(self.random.random())
        return float((self.node - self.best(len(began_s))) % len(self.run.began_s))

    def snapshot(self) -> Vector:
        """The parameters."""
        return self.parameters

    def nothing(self, *args: object, **kwargs: object) -> None:
        """Learn nothing."""

    step = add = try_out = merge = buffers = nothing


class Noted:
    """A worker's context, which notes what is sent, and in which of its iterations."""

    def __init__(self, run: DryRun, context: Context) -> None:
        self._run, self._context = run, context

    def __getattr__(self, name: str) -> Any:
        found = vars(self)[name] = getattr(self._context, name)  # asked for once
        return found

    def send(self, to: int, message: Message) -> None:
        """Note a message that has a size, and send it."""
        if message.size_bytes and message.topic != "weights":
            run, node = self._run, self._context.node
            sent = run.sent.setdefault((node, to), defaultdict(list))
            sent[len(run.began_s[node])].append(message.size_bytes * run.scale)
        self._context.send(to, message)


class Arrival(NamedTuple):
    """What has arrived on a link: of which iteration of its sender, bytes of the model's size."""

    at_s: float
    iteration: int
    size_bytes: float


class DryRun:
    """A training of sizes: `run_to` goes on, `close` ends it; use it with `contextlib.closing`.

    It observes the iterations and arrivals of its programs.
    """

    def __init__(
        self,
        cluster: Cluster,
        workload: Any,
        system: System,
        *,
        at_s: float,
        share: float | None,
        seed: int,
        best: Callable[[int], int] | None = None,
        samples: int = 0,
        last_iteration: float = math.inf,
    ) -> None:
        values = math.ceil(workload.model_bytes / VALUE_BYTES)
        values = VALUES if values > LARGE else values
        self.cluster, self.workload = cluster, workload
        self.scale = workload.model_bytes / (VALUE_BYTES * values)
        share = measured_share(system) if share is None else share
        if share is not None and system.exchange_models is None:
            part = sized_part(share * (VALUE_BYTES * values))
            system = replace(
                system,
                generate_partial_gradients=lambda _, links: dict.fromkeys(links.peers, part),
            )
        if system.batching is not None and not samples:
            batching = replace(system.batching, growth=CONSTANT, period=10**9)
            system = replace(system, batching=batching)
        network = frozen(cluster, at_s, 1 / self.scale)
        self.workers = workers = len(network)
        batch = np.arange(workload.local_batch)
        setup: Any = SimpleNamespace(
            nodes=workers,
            held=[batch] * workers,
            samples=samples or 10**9,
            seed=seed,
            sgd=Sgd(0.1),
            evaluate_every=10**9,
            patience_s=None,
        )
        # by worker: when each of its iterations began, transfers over its links, samples
        self.began_s: list[list[float]] = [[] for _ in range(workers)]
        self.carried: list[list[Transfer]] = [[] for _ in range(workers)]
        self._batches = [workload.local_batch] * workers
        # (source, target) -> bytes of each message by iteration of the source; what has arrived
        self.sent: dict[tuple[int, int], defaultdict[int, list[float]]] = {}
        self.arrived: defaultdict[tuple[int, int], list[Arrival]] = defaultdict(list)
        self.done: list[tuple[float, int, int, int]] = []  # at_s, node, iteration, samples
        self.rounds: list[int] = []  # iterations in which something was sent
        self._speeds = [node.speed_over_time.at(0.0) for node in network.nodes]
        learners: Any = [
            Synchronized(DryLearner(self, node, values, best)) for node in range(workers)
        ]
        job = WorkerJob(
            setup=setup,
            system=system,
            batch_size=workload.local_batch,
            sample_s=(workload.sample_s,) * workers,
            host_s=workload.host_s,
            stands_for=1.0,
            variables=(slice(0, values),),
            last_iteration=last_iteration,
        )
        self.asynchronous = system.synch_training is asynchronous
        programs = [self._watched(WorkerProgram(job, learner)) for learner in learners]
        self.simulation = Simulation(
            network, programs, seed=seed, threads=1, observer=self._observe
        )

    def _watched(self, run: Program) -> Program:
        async def watched(context: Context) -> Any:
            self.carried[context.node] = context.watch()
            return await run(cast(Any, Noted(self, context)))

        return watched

    @property
    def batches(self) -> tuple[int, ...]:
        """Samples in each worker's batch, once all have begun."""
        return tuple(self._batches)

    @property
    def own_s(self) -> list[float]:
        """Seconds of each worker's iteration without waiting."""
        work = self.workload
        return [
            work.host_s + batch * work.sample_s / speed
            for batch, speed in zip(self.batches, self._speeds, strict=True)
        ]

    @property
    def _instant_s(self) -> float:
        """What events of one instant differ by at most, since `began_s` is rounded."""
        return 1e-9 * max(self.own_s)

    def _observe(self, at_s: float, node: int, value: Any) -> None:
        """Note what a worker has done in an iteration, and what has arrived."""
        if isinstance(value, recorder.Iteration):
            self._batches[node] = value.samples
            self.done.append((at_s, node, value.iteration, value.samples))
        elif isinstance(value, recorder.Arrival) and value.topic != "weights" and value.size_bytes:
            arrival = Arrival(at_s, value.iteration, value.size_bytes * self.scale)
            self.arrived[value.source, node].append(arrival)
            if not self.rounds or value.iteration > self.rounds[-1]:
                self.rounds.append(value.iteration)

    def run_to(self, iterations: int) -> None:
        """Go on until every worker has begun this many iterations."""
        longest_s, before, longer = max(self.own_s), 0, 1
        while min(counts := [len(each) for each in self.began_s]) < iterations:
            # Longer steps where everybody waits: work may be far shorter than what is sent.
            longer, before = longer * 2 if sum(counts) == before else 1, sum(counts)
            step_s = longest_s * max(longer, iterations - min(counts) - 1)
            if (
                max(counts) > STUCK * max(self.own_s) / min(self.own_s)
                and (least := min(counts)) < 4
            ):
                last = counts.index(least)
                raise UserError(f"worker {last} waits for ever while others go on; {MUST}")
            self.run(self.simulation.env.now + step_s)

    def run(self, until_s: float | None = None) -> None:
        """Go on until a time, or the end."""
        try:
            self.simulation.run(until_s)
        except DeadlockError:
            raise UserError(f"all workers wait, and nothing is on its way; {MUST}") from None

    def close(self) -> None:
        """End all programs."""
        self.simulation.close()

    def settle(self, most: int) -> tuple[list[Window], bool]:
        """Go on until rounds repeat, or for `most`; return iterations of which the mean is theirs.

        And whether they repeat. A round ends with an iteration in which somebody sends.
        """
        states: list[list[float]] = []
        while len(states) < most:
            while len(self.rounds) <= len(states):
                if (begun := min(map(len, self.began_s))) > LATER:  # hardly anything is ever sent
                    return [(begun // 3, begun - 1)] * self.workers, False
                steps = self.rounds[-1] - self.rounds[-2] if len(self.rounds) > 1 else 1
                self.run_to(begun + max(1, steps // 2))
            self.run_to(self.rounds[len(states)] + 1)
            states.append(self._state(len(states)))
            for period in PERIODS:
                if len(states) > 2 * period and all(
                    np.allclose(states[-one], states[-one - period], rtol=0, atol=SAME)
                    for one in range(1, period + 1)
                ):
                    first, last = (
                        self.rounds[len(states) - 1 - period],
                        self.rounds[len(states) - 1],
                    )
                    return [(first, last)] * self.workers, True
        # The first quarter is left out: who measures links, as Ako does, sends more at first.
        whole = max(one for one in WINDOWS if one <= 3 * most // 4)
        first, last = self.rounds[most - 1 - whole], self.rounds[most - 1]
        counts = [len(began_s) for began_s in self.began_s]
        if not (self.asynchronous and max(counts) > 2 * min(counts)):
            return [(first, last)] * self.workers, False
        # Some get ever further ahead: as many rounds more as they do in the same time.
        since_s = max(began_s[first] for began_s in self.began_s)
        windows = []
        for began_s in self.began_s:
            at = self._rounds_in(len(began_s) - 1)
            often = (at - self._rounds_in(bisect_right(began_s, since_s) - 1)) // whole
            windows.append((self.rounds[at - 1 - whole * max(1, often)], self.rounds[at - 1]))
        return windows, False

    def _rounds_in(self, iterations: int) -> int:
        return bisect_right(self.rounds, iterations)

    def _state(self, number: int) -> list[float]:
        """Durations of a round and of what arrived last, and sizes, as shares."""
        iteration, before = self.rounds[number], self.rounds[number - 1] if number else 0
        scale_s, state = max(self.own_s), list[float]()
        for began_s in self.began_s:
            state.append((began_s[iteration] - began_s[before]) / scale_s)
        for source, target in permutations(range(self.workers), 2):
            arrived = self.arrived.get((source, target), [])
            now_s = self.began_s[target][iteration] + self._instant_s
            newest = bisect_right(arrived, now_s, key=lambda one: one.at_s) - 1
            last = arrived[newest] if newest >= 0 else Arrival(0.0, 0, 0.0)
            size = last.size_bytes / self.workload.model_bytes
            state += [iteration - last.iteration, (now_s - last.at_s) / scale_s, size]
        return state

    def measured(self, most: int) -> list[Window]:
        """Go on until every link was used, and a little longer; return the iterations since.

        For workers that never wait: what they send depends on what links carry alone. Links that
        are far slower than the workers are waited for until `UNUSED` messages are sent.
        """

        def begun() -> int:
            return min(map(len, self.began_s))

        def sent() -> int:
            return sum(map(len, self.began_s)) * (self.workers - 1)

        while begun() < 2 or (sent() < UNUSED and not self.sent.keys() <= self.arrived.keys()):
            self.run_to(begun() + 1)
        first, before = [len(each) for each in self.began_s], sent()
        while sent() < before + most * len(self.sent) or any(
            len(each) < one + 2 for each, one in zip(self.began_s, first, strict=True)
        ):
            self.run_to(begun() + 1)
        return [(one, len(each) - 1) for one, each in zip(first, self.began_s, strict=True)]

    def link_bytes(self, windows: Sequence[Window]) -> dict[tuple[int, int], float]:
        """(source, target) -> mean bytes that the sender's iterations in its window send."""
        return self._means(windows, sum)

    def link_messages(self, windows: Sequence[Window]) -> dict[tuple[int, int], float]:
        """(source, target) -> mean number of messages of these iterations."""
        return self._means(windows, len)

    def _means(
        self, windows: Sequence[Window], of: Callable[[list[float]], float]
    ) -> dict[tuple[int, int], float]:
        means = {}
        for pair, by_iteration in sorted(self.sent.items()):
            first, last = windows[pair[0]]
            total = sum(of(sizes) for at, sizes in by_iteration.items() if first < at <= last)
            if total:
                means[pair] = total / (last - first)
        return means

    def least_s(self, link_bytes: Mapping[tuple[int, int], float]) -> float:
        """Seconds that the busiest link or interface takes to carry these bytes."""
        network, bits = self.simulation.cluster, defaultdict[Any, float](float)
        longest_s = 0.0
        for pair, size_bytes in link_bytes.items():
            own = 8 * size_bytes / self.scale
            longest_s = max(longest_s, own / Schedule.of(network.links[pair].bandwidth).at(0.0))
            for way, node in zip(("uplink", "downlink"), pair, strict=True):
                bits[way, node] += own
        for (way, node), all_bits in bits.items():
            if (limit := getattr(network.nodes[node], way)) is not None:
                longest_s = max(longest_s, all_bits / limit.at(0.0))
        return longest_s

    def waiting_s(self, worker: int, first: int, last: int) -> tuple[float, float]:
        """Seconds of a worker's waiting while its links carry something, and while none does."""
        own_s, began_s = self.own_s[worker], self.began_s[worker]
        spans = sorted((one.start_s, one.end_s) for one in self.carried[worker] if one.size_bytes)
        waits = [(began_s[one - 1] + own_s, began_s[one]) for one in range(first + 1, last + 1)]
        all_s = sum(max(0.0, to_s - from_s) for from_s, to_s in waits)
        carried_s, done_s, place = 0.0, 0.0, 0
        for from_s, to_s in waits:
            while place < len(spans) and spans[place][0] < to_s:
                start_s, end_s = max(spans[place][0], from_s, done_s), min(spans[place][1], to_s)
                if end_s > start_s:
                    carried_s, done_s = carried_s + end_s - start_s, end_s
                if spans[place][1] > to_s:
                    break
                place += 1
        return carried_s, max(0.0, all_s - carried_s)
