"""A cluster running its programs in virtual time."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import simpy

from workbench.clusters import Cluster
from workbench.runtime.fault_injection import inject
from workbench.runtime.host import Host
from workbench.runtime.kernel import FIRST, EmptySchedule, Kernel
from workbench.runtime.pipe import Pipe
from workbench.runtime.reports import deadlock_report, failure_report
from workbench.runtime.run import DeadlockError, LinkUse, ProgramError, Run
from workbench.runtime.sharing import Sharing

if TYPE_CHECKING:
    from workbench.runtime.context import Program
    from workbench.runtime.faults import Fault
    from workbench.runtime.progress import Progress
    from workbench.runtime.trace import Trace

Programs = Mapping[int, "Program"] | Mapping[str, "Program"] | Sequence["Program"]
_PROGRESS_EVERY_S = 0.2


class _HaltError(Exception):
    """The time asked for is reached."""


class Simulation:
    """Programs on a cluster, run step by step; `simulate` is the short way.

    Parameters
    ----------
    cluster, programs, seed, trace, faults
        As for `simulate`.

    Attributes
    ----------
    results
        What the programs returned so far, by node.
    """

    def __init__(
        self,
        cluster: Cluster,
        programs: Programs,
        *,
        seed: int = 0,
        trace: bool = False,
        faults: Iterable[Fault] = (),
    ) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise ValueError(f"seed is {seed!r}; it must be a whole number, at least 0")
        self.cluster, self.seed, self.env = cluster, seed, Kernel()
        self.rows: list[tuple[str, str, str, float, float, int]] | None = [] if trace else None
        self.sharing = Sharing(self.env)
        self.results: dict[int, Any] = {}
        self.delivered_s = 0.0
        self.pending = 0  # programs that run or will restart, and messages on their way
        self.failure: tuple[Host, BaseException] | None = None
        self.faults = tuple(faults)
        given = _by_node(cluster, programs)
        self.hosts = [
            Host(self, index, node, given.get(index)) for index, node in enumerate(cluster.nodes)
        ]
        self.pipes = {
            (source, target): Pipe(self, self.hosts[source], self.hosts[target], link)
            for (source, target), link in cluster.links.items()
        }
        for (source, target), pipe in self.pipes.items():
            self.hosts[source].pipes[target] = pipe
        inject(self, self.faults)
        for host in self.hosts:
            host.start()

    def run(self, until_s: float | None = None, progress: Progress | None = None) -> Run:
        """Go on until all is done, or until a time; call again to go on from there.

        Raises
        ------
        ValueError
            `until_s` is in the past.
        ProgramError, DeadlockError
            A program failed, or all wait for each other; the error's `run` holds the rest.
        """
        if until_s is not None:
            if not until_s >= self.env.now:
                raise ValueError(f"until_s is {until_s}, but {self.env.now} s are over already")
            if until_s < math.inf:
                self.env.call(_halt, FIRST, until_s - self.env.now)
        try:
            if progress is None:
                step = self.env.step
                while self.pending:
                    step()
            else:
                self._run_showing(progress)
        except _HaltError:
            return self.result("stopped")
        except KeyboardInterrupt:
            return self.result("interrupted")
        except EmptySchedule:
            run = self.result("deadlock")
            raise DeadlockError(deadlock_report(self), run) from None
        except Exception as error:
            cause = error if self.failure is None else self.failure[1]
            raise ProgramError(failure_report(self, cause), self.result("failed")) from cause
        return self.result("done")

    def _run_showing(self, progress: Progress) -> None:
        shown_s = -math.inf
        while self.pending:
            self.env.step()
            if (wall_s := time.perf_counter()) - shown_s > _PROGRESS_EVERY_S:
                progress(self.env.now, self.env.events)
                shown_s = wall_s
        progress(self.env.now, self.env.events)

    def close(self) -> None:
        """End all programs that still run."""
        for host in self.hosts:
            host.cancel()

    def result(self, ended: Literal["done", "stopped", "interrupted", "failed", "deadlock"]) -> Run:
        """What there is so far."""
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

        The clock itself may have gone on, to the end of a timeout that was not needed.
        """
        waits = [wait.since_s for host in self.hosts for wait in host.mailbox.waits]
        ends = [host.ended_s for host in self.hosts if host.ended_s is not None]
        return max(self.delivered_s, *waits, *ends)

    def _trace(self, end_s: float) -> Trace | None:
        if self.rows is None:
            return None
        from workbench.runtime.recording import trace_of

        return trace_of(self.rows, self.cluster, self.faults, end_s)


def _halt(_: simpy.Event) -> None:
    raise _HaltError


def _by_node(cluster: Cluster, programs: Programs) -> dict[int, Program]:
    if not isinstance(programs, Mapping):
        if len(programs) != len(cluster):
            raise ValueError(
                f"{len(programs)} programs for {len(cluster)} nodes ({', '.join(cluster.names)}); "
                "give one for each, or a mapping from node to program"
            )
        programs = dict(enumerate(programs))
    found = {cluster.index(node): program for node, program in programs.items()}
    if len(found) < len(programs):
        twice = [cluster.index(node) for node in programs]
        node = next(index for index in found if twice.count(index) > 1)
        raise ValueError(f"two programs for {cluster.names[node]}, by its name and its index")
    for index, program in found.items():
        if not callable(program):
            raise ValueError(
                f"the program of {cluster.names[index]} is {program!r}; give the `async def` "
                "itself, which takes the context, without calling it"
            )
    return found
