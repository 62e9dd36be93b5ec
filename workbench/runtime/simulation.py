"""A cluster running its programs in virtual time."""

from __future__ import annotations

import gc
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, NoReturn

import simpy

from workbench.checks import check_number, check_truth, check_whole
from workbench.clusters import Cluster
from workbench.errors import UserError
from workbench.runtime.fault_injection import inject
from workbench.runtime.faults import check_faults
from workbench.runtime.host import Host
from workbench.runtime.pipe import Pipe
from workbench.runtime.programs import Programs, by_node
from workbench.runtime.reports import deadlock_report, failure_report
from workbench.runtime.run import DeadlockError, LinkUse, ProgramError, Run, SimulationError
from workbench.runtime.simulated import SimulatedContext
from workbench.runtime.state import State
from workbench.runtime.threads import Threads, thread_count

if TYPE_CHECKING:
    from workbench.runtime.faults import Fault
    from workbench.runtime.progress import Progress
    from workbench.runtime.trace import Trace

_PROGRESS_EVERY_S = 0.2
_MANY_NODES = 1_000
_LOOK_EVERY = range(1 << 16)
MOST_AT_ONCE = 1_000_000
"""Events in one instant, beside `MOST_AT_ONCE_EACH` for each node and link, that are no loop."""
MOST_AT_ONCE_EACH = 1_000
_NO_TIME_S = 1e-12
"""By what less the clock moves in an event on average, it stands still."""


@contextmanager
def _rare_collections(nodes: int) -> Iterator[None]:
    """Collect garbage less often where many nodes would be walked each time."""
    before = gc.get_threshold()
    if nodes > _MANY_NODES and before[0]:
        gc.set_threshold(max(before[0], 10 * nodes), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


class _ProgressFailedError(Exception):
    """A function that was to show progress raised an exception."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Simulation:
    """Programs on a cluster, run step by step; `simulate` is the short form.

    After the last `run`, `close` ends the programs that still run, and the threads. `results` holds
    what programs have returned so far, by node. Parameters are those of `simulate`.
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
    ) -> None:
        check_truth("trace", trace)
        self.state = state = State(
            cluster,
            check_whole("seed", seed, 0),
            Threads(thread_count(threads)),
            [] if trace else None,
        )
        self.cluster, self.env, self.results = cluster, state.env, state.results
        self._midway = False  # within an event, which only a program's failure ends cleanly
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
        inject(self.faults, state, self.hosts, self.pipes)
        self._begun = False

    def run(self, until_s: float | None = None, progress: Progress | None = None) -> Run:
        """Go on until all is done, or until a time; call again to go on from there.

        A program that failed, or that Ctrl-C interrupted, is over, without a result and without
        a restart; the others go on when this is called again.

        Raises
        ------
        ValueError
            `until_s` is no time, or in the past.
        ProgramError, DeadlockError
            A program failed, or all wait for each other; the error's `run` holds the rest.
        SimulationError
            An earlier call was cut off between two programs, so what is left is not whole.
        """
        end_s = math.inf if until_s is None else check_number("until_s", until_s)
        if math.isnan(end_s):
            raise UserError("until_s is nan; give the seconds at which to stop")
        if not end_s >= self.env.now:
            raise UserError(f"until_s is {until_s}, but {self.env.now} s are over already")
        if self._midway and self.state.failure is None:
            raise SimulationError(
                f"the simulation was cut off in the middle of an event at {self.env.now:g} s, so "
                "it cannot go on; make a new one",
                self.result("interrupted"),
            )
        self.state.failure = None
        if not self._begun:  # not before, so that what never runs leaves nothing unfinished
            self._begun = True
            for host in self.hosts:
                host.start()
        try:
            with self.env.running(), _rare_collections(len(self.hosts)):
                self._step_to(end_s, progress)
            self.state.threads.settle()
        except _ProgressFailedError as error:
            raise error.cause from None
        except KeyboardInterrupt:
            return self.result("interrupted")
        except BaseException as error:  # programs may raise SystemExit or CancelledError, too
            if self.state.failure is None and not isinstance(error, Exception):
                raise
            cause = error if self.state.failure is None else self.state.failure[1]
            raise ProgramError(
                failure_report(self.state, self.hosts, cause), self.result("failed")
            ) from cause
        if not self.state.pending:
            return self.result("done")
        if not any(map(self._can_wake, self.env.coming())):
            raise DeadlockError(deadlock_report(self.state, self.hosts), self.result("deadlock"))
        self.env.advance(end_s)
        return self.result("stopped")

    def _step_to(self, end_s: float, progress: Progress | None) -> None:
        """Process what comes before a time, until all is done or nothing comes."""
        env, step, queue, shown_s = self.env, self.env.step, self.env.queue, -math.inf
        self._midway, looked_s, at_once = True, env.now, 0
        while self.state.pending and queue and queue[0][0] < end_s:
            for _ in _LOOK_EVERY:
                step()
                if not (self.state.pending and queue and queue[0][0] < end_s):
                    break
                if progress is None:
                    continue
                if (wall_s := time.perf_counter()) - shown_s > _PROGRESS_EVERY_S:
                    self._midway = False
                    self._tell(progress)
                    shown_s, self._midway = wall_s, True
            stands = env.now - looked_s < _NO_TIME_S * len(_LOOK_EVERY)
            at_once, looked_s = at_once + len(_LOOK_EVERY) if stands else 0, env.now
            if at_once > MOST_AT_ONCE + MOST_AT_ONCE_EACH * (len(self.hosts) + len(self.pipes)):
                self._refuse_loop()
        self._midway = False
        if progress is not None:
            self._tell(progress)

    def _tell(self, progress: Progress) -> None:
        try:
            progress(self.env.now, self.env.events)
        except Exception as error:  # not a program's, which has an error of its own
            raise _ProgressFailedError(error) from error

    def _refuse_loop(self) -> NoReturn:
        counts: Counter[Host] = Counter()
        for _ in range(1_000):
            if self.env.queue:
                for callback in self.env.queue[0][3].callbacks:
                    process = getattr(callback, "__self__", None)
                    counts.update(host for host in self.hosts if process in host.running)
                self.env.step()
        host = counts.most_common(1)[0][0] if counts else self.hosts[0]
        error = RuntimeError(
            f"over {MOST_AT_ONCE:,} events and no time passes, or less than a picosecond each: its "
            "program waits for nothing that takes time, such as in `while True: await "
            "context.sleep(0)`; wait for a message, or sleep for longer"
        )
        self.state.failure = (host.index, error)
        raise error

    def _can_wake(self, event: simpy.Event) -> bool:
        if event not in self.state.fault_events:
            return True
        node = self.state.fault_events[event]
        host = None if node is None else self.hosts[node]
        return host is not None and host.program is not None and host.ended_s is None

    def close(self) -> None:
        """End all programs that still run, and wait for their work."""
        self._begun = True
        with self.env.running():
            for host in self.hosts:
                host.cancel()
        self.env.ended = True
        self.state.threads.close()

    def result(self, ended: Literal["done", "stopped", "interrupted", "failed", "deadlock"]) -> Run:
        """Return the run so far."""
        end_s = self._last_s() if ended == "deadlock" else self.env.now
        return Run(
            end_s=end_s,
            ended=ended,
            results={index: self.results[index] for index in sorted(self.results)},
            trace=self._trace(end_s),
            events=self.env.events,
            links=tuple(
                LinkUse(
                    pipe.source.name,
                    pipe.target.name,
                    pipe.messages,
                    pipe.bytes,
                    pipe.lost,
                    pipe.busy_s,
                )
                for pipe in self.pipes.values()
            ),
        )

    def _last_s(self) -> float:
        """When the last program stopped, to wait or for good, or the last message came.

        The clock itself may be later: at the end of a timeout that was not needed.
        """
        waits = [wait.since_s for host in self.hosts for wait in host.mailbox.waits]
        return max(self.state.delivered_s, self.state.ended_s, *waits)

    def _trace(self, end_s: float) -> Trace | None:
        if self.state.rows is None:
            return None
        from workbench.runtime.recording import trace_of

        return trace_of(self.state.rows, self.cluster, self.faults, end_s)
