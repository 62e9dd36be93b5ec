"""A cluster running its programs in virtual time."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from typing import TYPE_CHECKING

import simpy

from workbench.clusters import Cluster
from workbench.clusters.cluster import check_cluster
from workbench.runtime.faults import (
    Crash,
    Fault,
    LinkDown,
    Lossy,
    Restart,
    SlowDown,
    check_faults,
    fault_rows,
)
from workbench.runtime.host import Host
from workbench.runtime.pipe import Pipe, State
from workbench.runtime.progress import Progress, check_progress, shown
from workbench.runtime.run import (
    DeadlockError,
    Ended,
    LinkUse,
    ProgramError,
    Run,
    deadlock_report,
    failure_report,
    states,
)
from workbench.runtime.simulated import SimulatedContext
from workbench.runtime.threads import Threads, thread_count
from workbench.runtime.trace import Row, Trace
from workbench.utils.checks import UserError, check_number, check_truth, check_whole

if TYPE_CHECKING:
    from workbench.runtime.context import Observer, Program

Programs = Mapping[int, "Program"] | Mapping[str, "Program"] | Sequence["Program"]

_PROGRESS_EVERY_S = 0.2
_COLLECTED_EVERY = 10_000


def simulate(
    cluster: Cluster,
    programs: Programs,
    *,
    seed: int = 0,
    trace: bool = False,
    faults: Iterable[Fault] = (),
    until_s: float | None = None,
    progress: Progress | bool | None = False,
    threads: int | None = None,
    observer: Observer | None = None,
) -> Run:
    """Run a program on every node until all have ended and all messages have arrived.

    Learning is real, time is virtual: `Context.compute` runs its work and charges its cost,
    `Context.send` charges the link. The same arguments give the same results and the same trace,
    bit for bit. It needs no event loop and runs within one, as in a notebook.

    Parameters
    ----------
    programs
        A coroutine function that takes a `Context` for each node: one per node in order, or a
        mapping from node (index or name), in which nodes without a program may be left out.
    seed
        Of the nodes' generators and of messages that lossy links lose.
    trace
        Record what ran when.
    faults
        See `workbench.runtime.faults`.
    until_s
        Stop then, whatever still runs. Programs that wait for what nobody will send are a
        deadlock before that, too.
    progress
        True to show how far the run is; or a function, called a few times a second with
        virtual seconds and events so far.
    threads
        How many pieces of work that `Context.compute` does `on` a state run at once; by default as
        many as there are cores, or as the environment variable ``WORKBENCH_THREADS`` says.
        Changes nothing but how long a run takes.
    observer
        Called with each observation of a program's, at once: see `Context.record`.

    Returns
    -------
    Run
        What Ctrl-C interrupts is a run too, with what it had until then.

    Raises
    ------
    ValueError
        Programs, faults, seed or time that do not fit the cluster, or less than one thread.
    ProgramError, DeadlockError
        A program failed, or all wait for each other; the error's `run` holds the rest.
    """
    check_progress(progress)
    simulation = Simulation(
        cluster,
        programs,
        seed=seed,
        trace=trace,
        faults=faults,
        threads=threads,
        observer=observer,
    )
    showing = shown(until_s) if progress is True else nullcontext(progress or None)
    with closing(simulation), showing as show:
        return simulation.run(until_s, show)


class Simulation:
    """A run of `simulate`, whose parameters these are, that may stop at a time and go on.

    After the last `run`, `close` ends the programs that still run, and the threads. `results` holds
    what programs have returned so far, by node.
    """

    def __init__(
        self,
        cluster: Cluster,
        programs: Programs,
        *,
        seed: int = 0,
        trace: bool = False,
        faults: Iterable[Fault] = (),
        threads: int | None = None,
        observer: Observer | None = None,
    ) -> None:
        check_truth("trace", trace)
        seed, workers = check_whole("seed", seed, 0), Threads(thread_count(threads))
        rows: list[Row] | None = [] if trace else None
        self.state = state = State(cluster, seed, workers, rows, observer=observer)
        self.cluster, self.env, self.results = cluster, state.env, state.results
        self._not_shown: BaseException | None = None  # what a function raised that shows progress
        self.faults = check_faults(faults)
        of_node = by_node(cluster, programs)
        self.hosts = [
            Host(state, index, node, of_node.get(index), SimulatedContext)
            for index, node in enumerate(cluster.nodes)
        ]
        self.pipes = {
            (source, target): Pipe(self.hosts[source], self.hosts[target], link)
            for (source, target), link in cluster.links.items()
        }
        for (source, target), pipe in self.pipes.items():
            self.hosts[source].pipes[target] = pipe
        self._begun = False
        self._schedule_faults()

    def _schedule_faults(self) -> None:
        """They come first in their instant, in the order of the list."""
        index = self.cluster.index
        crashes: dict[int, list[Crash | Restart]] = {}
        for fault in self.faults:
            if isinstance(fault, Crash | Restart):
                crashes.setdefault(index(fault.node), []).append(fault)
            elif isinstance(fault, SlowDown):
                host = self.hosts[index(fault.node)]
                host.speed = host.speed.scaled(1 / fault.factor, fault.from_s, fault.to_s)
            elif isinstance(fault, LinkDown | Lossy):
                self.cluster.link(fault.source, fault.target)
                self.pipes[index(fault.source), index(fault.target)].inject(fault)
        for node in sorted(crashes):
            self.hosts[node].inject(crashes[node])

    def run(self, until_s: float | None = None, progress: Progress | None = None) -> Run:
        """Go on until all is done, or until a time; once it has stopped there, call again to go on.

        Errors are those of `simulate`.
        """
        end_s = math.inf if until_s is None else check_number("until_s", until_s)
        if math.isnan(end_s):
            raise UserError("until_s is nan; give the seconds at which to stop")
        if not end_s >= self.env.now:
            raise UserError(f"until_s is {until_s}, but {self.env.now} s are over already")
        if not self._begun:  # not before, so that what never runs leaves nothing unfinished
            self._begun = True
            for host in self.hosts:
                host.start()
        try:
            with _rare_collections(len(self.hosts)):
                self._step_to(end_s, progress)
            self.state.threads.settle()
        except KeyboardInterrupt:
            return self.result("interrupted")
        except BaseException as error:  # programs may raise SystemExit or CancelledError, too
            no_exception = self.state.failure is None and not isinstance(error, Exception)
            if no_exception or error is self._not_shown:
                raise
            cause = error if self.state.failure is None else self.state.failure[1]
            raise ProgramError(
                failure_report(self.state, self.hosts, cause), self.result("failed")
            ) from cause
        if not self.state.pending:
            return self.result("done")
        if not any(self._can_wake(event) for *_, event in self.env.queue if event.callbacks):
            names = self.cluster.names
            report = deadlock_report(names, [states(host, names) for host in self.hosts])
            raise DeadlockError(report, self.result("deadlock"))
        self.env.advance(end_s)
        return self.result("stopped")

    def _step_to(self, end_s: float, progress: Progress | None) -> None:
        """Process what comes before a time, until all is done or nothing comes."""
        step, queue, shown_s = self.env.step, self.env.queue, -math.inf
        while self.state.pending and queue and queue[0][0] < end_s:
            step()
            if (
                progress is not None
                and (wall_s := time.perf_counter()) - shown_s > _PROGRESS_EVERY_S
            ):
                self._tell(progress)
                shown_s = wall_s
        if progress is not None:
            self._tell(progress)

    def _tell(self, progress: Progress) -> None:
        try:
            progress(self.env.now, self.env.events)
        except Exception as error:
            self._not_shown = error
            raise

    def _can_wake(self, event: simpy.Event) -> bool:
        if event not in self.state.fault_events:
            return True
        node = self.state.fault_events[event]
        host = None if node is None else self.hosts[node]
        return host is not None and host.program is not None and host.ended_s is None

    def close(self) -> None:
        """End all programs that still run, and wait for their work."""
        self._begun = True
        for host in self.hosts:
            host.cancel()
        self.state.threads.close()

    def result(self, ended: Ended) -> Run:
        """Return the run so far."""
        end_s, trace = self.env.now, None
        if ended == "deadlock":
            # The clock itself may be later: at the end of a timeout that was not needed.
            waits = [wait.since_s for host in self.hosts for wait in host.mailbox.waits]
            end_s = max(self.state.delivered_s, self.state.ended_s, *waits)
        if self.state.rows is not None:
            rows = [*self.state.rows, *fault_rows(self.faults, self.cluster, end_s)]
            trace = Trace.of(sorted(rows, key=lambda row: row[3]))
        return Run(
            end_s=end_s,
            ended=ended,
            results={index: self.results[index] for index in sorted(self.results)},
            learnt={node: value for host in self.hosts for node, value in host.learnt().items()},
            trace=trace,
            events=self.env.events,
            links=tuple(
                LinkUse(*pair, pipe.messages, pipe.bytes, pipe.lost, pipe.busy_s)
                for pipe in self.pipes.values()
                for pair in [(pipe.source.name, pipe.target.name)]
            ),
        )


@contextmanager
def _rare_collections(nodes: int) -> Iterator[None]:
    """Collect garbage less often: little is made, and all that lives is walked each time."""
    before = gc.get_threshold()
    if before[0]:
        gc.set_threshold(max(before[0], _COLLECTED_EVERY, 10 * nodes), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def by_node(cluster: Cluster, programs: Programs) -> dict[int, Program]:
    """Return the program of each node."""
    check_cluster(cluster)
    if callable(programs) or not isinstance(programs, Mapping | Sequence):
        raise UserError(
            f"programs is {programs!r}; give one for each node, such as [program] * "
            f"{len(cluster)}, or a mapping from node to program"
        )
    if not isinstance(programs, Mapping):
        if len(programs) != len(cluster):
            raise UserError(
                f"{len(programs)} programs for {len(cluster)} nodes ({', '.join(cluster.names)}); "
                "give one for each, or a mapping from node to program"
            )
        programs = dict(enumerate(programs))
    of_node: dict[int, Program] = {}
    for node, program in programs.items():
        index = cluster.index(node)
        name = cluster.names[index]
        if index in of_node:
            raise UserError(f"two programs for {name}, by its name and its index")
        if not callable(program):
            raise UserError(
                f"the program of {name} is {program!r}; give the `async def` itself, which takes "
                "the context, without calling it"
            )
        of_node[index] = program
    return of_node
