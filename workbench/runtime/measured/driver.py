"""Starts the processes of a measured run, waits for them and collects what they noted."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import psutil

from workbench.clusters import Cluster
from workbench.runtime.context import Observer
from workbench.runtime.faults import Fault, Uptime, fault_rows
from workbench.runtime.measured import packing
from workbench.runtime.measured.capacity import arbitrated
from workbench.runtime.measured.connection import new_token
from workbench.runtime.measured.records import ArbiterRecord, Outcome, Place, Ready, Record, Status
from workbench.runtime.measured.run import MeasuredRun, lateness
from workbench.runtime.measured.sessions import Session, host_facts
from workbench.runtime.run import (
    DeadlockError,
    Ended,
    LinkUse,
    ProgramError,
    SimulationError,
    deadlock_report,
)
from workbench.runtime.trace import Trace
from workbench.utils.checks import UserError

Process = tuple[int, int]
"""A node, and how often it was restarted."""

_START_IN_S = 0.1
_LOOK_EVERY_S = 0.5
_READINGS = 10
PATIENCE_S = 10.0
"""For what was sent and should have arrived."""


@dataclass(frozen=True)
class Plan:
    """What is to run."""

    cluster: Cluster
    programs: Mapping[int, bytes]
    seed: int
    faults: tuple[Fault, ...]
    trace: bool
    as_measured: bool
    until_s: float
    resources: Mapping[int, Mapping[str, float]]
    observer: Observer | None

    def processes(self) -> list[Process]:
        """Of all nodes; those of a node without a program are only reached by messages."""
        index = self.cluster.index
        return [
            (node, restarts)
            for node in range(len(self.cluster))
            for restarts in range(Uptime(node, self.faults, index).processes)
        ]


class Driver:
    """Starts the processes of a run, waits for them and collects what they noted."""

    def __init__(self, plan: Plan, session: Session) -> None:
        self.plan, self.session, self.ray = plan, session, session.ray
        token = new_token()
        self.places = {
            (node, restarts): Place(
                plan.cluster,
                node,
                restarts,
                plan.seed,
                plan.faults,
                plan.trace,
                plan.as_measured,
                plan.until_s,
                token,
                session.host,
            )
            for node, restarts in plan.processes()
        }
        self.actors: dict[Process, Any] = {}
        self.arbiter: Any = None  # an actor, where one is needed
        self._arbitration: Any = None  # its run
        self._arbitrated = ArbiterRecord()
        self.ready: dict[Process, Ready] = {}
        self.outcomes: dict[Process, Outcome] = {}
        self.running: dict[Any, Process] = {}
        self.records: dict[Process, Record] = {}
        self._offsets_s: dict[Process, float] = {}
        self._clock_error_s = 0.0
        self._report = ""  # of a deadlock

    def run(self) -> MeasuredRun:
        """Run to the end."""
        before = host_facts()
        ended: Ended = "failed"
        try:
            self._start()
            ended = self._wait()
            if ended in ("done", "stopped"):
                self._finish()
        except KeyboardInterrupt:
            if not self.running:  # nothing runs yet, or all has ended
                raise
            self._stop()
            ended = "interrupted"
        except self.ray.exceptions.RayActorError as error:
            said = self._died(error)
            if self.running:
                with suppress(self.ray.exceptions.RayError):
                    self._stop()
            raise SimulationError(said, self._observed("failed", before)) from None
        except self.ray.exceptions.RayTaskError as error:
            said = str(error.cause) or repr(error.cause)
            raise SimulationError(said, self._result("failed", before)) from error.cause
        finally:
            whole = ended in ("done", "deadlock", "stopped")
            actors = list(self.actors.values())
            if self.arbiter is not None:
                actors.append(self.arbiter)
                if whole:
                    self._arbitrated = self.ray.get(self.arbiter.call.remote("end"))
                    self.ray.get(self._arbitration)
            self.session.leave(actors, whole=whole)
        run = self._observed(ended, before)
        if ended == "failed":
            failed = min(
                (outcome for outcome in self.outcomes.values() if outcome.why == "failed"),
                key=lambda outcome: outcome.at_s,
            )
            cause = None
            with suppress(Exception):  # it may be of a kind that is not known here
                cause = packing.loads(failed.error)
            raise ProgramError(failed.said, run) from cause
        if ended == "deadlock":
            raise DeadlockError(self._report, run)
        return run

    def _observed(self, ended: Ended, before: Mapping[str, float]) -> MeasuredRun:
        """The results, once the observer was given what programs recorded."""
        run = self._result(ended, before)
        observer = self.plan.observer
        if observer is None:
            return run
        recorded = [
            observation for record in self.records.values() for observation in record.observations
        ]
        for at_s, node, value in sorted(recorded, key=lambda observation: observation.at_s):
            try:
                observer(at_s, node, packing.loads(value))
            except Exception as error:
                if ended in ("failed", "deadlock"):  # which matters more
                    break
                said = f"{self.plan.cluster.names[node]} recorded at {at_s:g} s: {error}"
                raise ProgramError(said, replace(run, ended="failed")) from error
        return run

    def _call(
        self, name: str, actors: Mapping[Process, Any], *arguments: Any, **options: Any
    ) -> dict[Process, Any]:
        """Call a method of several processes; what each returned."""
        calls = [actor.call.remote(name, *arguments, **options) for actor in actors.values()]
        return dict(zip(actors, self.ray.get(calls), strict=True))

    def _start(self) -> None:
        programs = self.plan.programs
        wanted = [self.plan.resources.get(node, {}) for node, _ in self.places]
        actors = dict(zip(self.places, self.session.take(wanted), strict=True))
        self.actors = actors
        if arbitrated(self.plan.cluster):
            (self.arbiter,) = self.session.take([{"CPU": 0}])
            listens = self.arbiter.arbitrate.remote(next(iter(self.places.values())))
        calls = [
            actors[node, restarts].begin.remote(place, programs.get(node, b""))
            for (node, restarts), place in self.places.items()
        ]
        try:
            self.ready = dict(zip(actors, self.ray.get(calls), strict=True))
        except self.ray.exceptions.RayTaskError as error:
            raise UserError(
                f"a program cannot be made in its process: {error.cause!r}; what it uses must be "
                "importable there"
            ) from error.cause
        addresses: dict[int, dict[int, tuple[str, int]]] = {}
        for (node, restarts), ready in self.ready.items():
            addresses.setdefault(node, {})[restarts] = ready.address
        arbiter = None if self.arbiter is None else self.ray.get(listens)
        uses_torch = any(ready.uses_torch for ready in self.ready.values())
        self._call("connect", actors, addresses, arbiter, uses_torch=uses_torch)
        offsets_s = {process: self._offset_s(actor)[0] for process, actor in actors.items()}
        self._offsets_s = offsets_s
        arbiter_s = 0.0 if self.arbiter is None else self._offset_s(self.arbiter)[0]
        began_s = time.monotonic() + _START_IN_S
        if self.arbiter is not None:
            self._arbitration = self.arbiter.call.remote("run", began_s + arbiter_s)
        for process, actor in actors.items():
            self.running[actor.call.remote("run", began_s + offsets_s[process])] = process

    def _offset_s(self, actor: Any) -> tuple[float, float]:
        """What another machine's clock shows when this one's shows 0, and how sure that is."""
        if self.session.address is None:
            return 0.0, 0.0
        readings = []
        for _ in range(_READINGS):
            before_s = time.monotonic()
            there_s = self.ray.get(actor.reading_s.remote())
            after_s = time.monotonic()
            readings.append((after_s - before_s, there_s - (before_s + after_s) / 2))
        took_s, offset_s = min(readings)
        return offset_s, took_s / 2

    def _wait(self) -> Ended:
        """Wait until all programs have ended, one has failed, or all wait for each other."""
        stopped, before = False, None
        while self.running:
            done, _ = self.ray.wait(list(self.running), timeout=_LOOK_EVERY_S)
            for call in done:
                process = self.running.pop(call)
                outcome: Outcome = self.ray.get(call)
                self.outcomes[process] = outcome
                stopped |= outcome.why == "stopped"
                if outcome.why == "crashed":
                    actor = self.actors.pop(process)
                    self.records[process] = self.ray.get(actor.call.remote("collect", 0.0))
                    self.session.leave([actor], whole=False)
                if outcome.why == "failed":
                    self._stop()
                    return "failed"
                if outcome.why == "ended":
                    for node, restarts in self.actors:
                        if node == process[0] and restarts > process[1]:
                            self.actors[node, restarts].call.remote("skip")
            if not done:
                now = self._statuses()
                if now is not None and now == before:
                    self._report = self._deadlock(now)
                    self._stop()
                    return "deadlock"
                before = now
        return "stopped" if stopped else "done"

    def _statuses(self) -> dict[Process, Status] | None:
        """Status of all, if nothing can happen any more."""
        statuses: dict[Process, Status] = self._call("status", self.actors)
        for node, restarts in self.running.values():
            uptime = Uptime(node, self.plan.faults, self.plan.cluster.index)
            if restarts + 1 < uptime.processes or uptime.lasts(restarts)[1] < math.inf:
                return None  # a crash or a restart is still to come
        sent = sum(
            count
            for counts in (
                *(status.sent for status in statuses.values()),
                *(record.sent for record in self.records.values()),  # of those that crashed
            )
            for process, count in counts.items()
            if process in self.actors
        )
        received = sum(status.received for status in statuses.values())
        idle = all(status.idle for status in statuses.values())
        return statuses if idle and sent == received else None

    def _deadlock(self, statuses: Mapping[Process, Status]) -> str:
        latest = {node: statuses[node, restarts] for node, restarts in sorted(statuses)}
        nodes = range(len(self.plan.cluster))
        return deadlock_report(
            self.plan.cluster.names,
            [latest[node].waits if node in latest else ["is down after a crash"] for node in nodes],
        )

    def _stop(self) -> None:
        """Stop all programs, end the processes that do not answer, and collect what there is."""
        answers = {actor.call.remote("stop"): process for process, actor in self.actors.items()}
        calls = {**answers, **self.running}
        _, silent = self.ray.wait(list(calls), num_returns=len(calls), timeout=PATIENCE_S)
        for process in {calls[call] for call in silent}:
            self._end(process)
        for call, process in self.running.items():
            if process in self.actors:
                self.outcomes[process] = self.ray.get(call)
        self.running.clear()
        self._collect(0.0)

    def _end(self, process: Process) -> None:
        """End a process that cannot answer, such as one that was stopped."""
        self.session.leave([self.actors.pop(process)], whole=False)
        ready = self.ready.get(process)
        if self.session.folder is not None and ready is not None:
            with suppress(psutil.NoSuchProcess):
                psutil.Process(ready.process).kill()  # Ray would wait for it

    def _collect(self, patience_s: float) -> None:
        self.records |= self._call("collect", self.actors, patience_s)

    def _finish(self) -> None:
        """Let all that was sent arrive, and collect."""
        self._call("drain", self.actors)
        for process, actor in self.actors.items():
            offset_s, unsure_s = self._offset_s(actor)
            drift_s = abs(offset_s - self._offsets_s[process])
            self._clock_error_s = max(self._clock_error_s, drift_s + unsure_s)
        self._collect(PATIENCE_S)

    def _died(self, error: BaseException) -> str:
        """Describe the processes that ended by themselves, and stop using them."""
        names = self.plan.cluster.names
        lines = []
        for process, actor in list(self.actors.items()):
            try:
                self.ray.get(actor.reading_s.remote(), timeout=5.0)
            except self.ray.exceptions.GetTimeoutError:
                continue
            except self.ray.exceptions.RayActorError:
                if process in self.outcomes and self.outcomes[process].why == "crashed":
                    continue
                self._end(process)
                which, wrote = f"node {process[0]}", ""
                if (ready := self.ready.get(process)) is not None:
                    which += f", process {ready.process} on {ready.machine}"
                    wrote = self.session.last_lines(ready.process)
                lines.append(
                    f"the process of {names[process[0]]} ({which}) ended by itself"
                    + (f"; it wrote last:\n{wrote}" if wrote else "; it wrote nothing")
                )
        return "\n".join(lines) or f"a process of the run ended by itself: {error}"

    def _result(self, ended: Ended, before: Mapping[str, float]) -> MeasuredRun:
        plan, names = self.plan, self.plan.cluster.names
        results: dict[int, Any] = {}
        learnt: dict[int, bytes] = {}
        for (node, _), outcome in sorted(self.outcomes.items()):
            if outcome.why == "ended" and node in plan.programs and node not in results:
                results[node] = packing.loads(outcome.result)
            if outcome.learnt:
                learnt[node] = outcome.learnt
        records = self.records.values()
        end_s = max(
            [
                *(outcome.at_s for outcome in self.outcomes.values() if outcome.why != "skipped"),
                *(record.last_s for record in records),
                *(sent.transfer.end_s for record in records for sent in record.transfers),
            ],
            default=0.0,
        )
        made = None
        if plan.trace:
            rows = [row for record in records for row in record.rows]
            rows += fault_rows(plan.faults, plan.cluster, end_s)
            made = Trace(Trace.of(rows).frame.sort("start_s", "end_s", maintain_order=True))
        after = host_facts()
        all_s = after["all_s"] - before["all_s"]
        return MeasuredRun(
            end_s=end_s,
            ended=ended,
            results=results,
            learnt={node: packing.loads(value) for node, value in learnt.items()},
            trace=made,
            events=sum(record.events for record in records),
            links=_joined(plan.cluster, [use for record in records for use in record.uses]),
            late=lateness(names, self.records, self._arbitrated),
            steal=(after["steal_s"] - before["steal_s"]) / all_s if all_s else 0.0,
            clock_error_s=self._clock_error_s,
            refused=self._arbitrated.refused + sum(record.refused for record in records),
        )


def _joined(cluster: Cluster, uses: list[LinkUse]) -> tuple[LinkUse, ...]:
    """One use for each link, of all processes of its source."""
    joined = []
    for source, target in cluster.links:
        ends = cluster.names[source], cluster.names[target]
        own = [use[2:] for use in uses if use[:2] == ends]
        joined.append(
            LinkUse(*ends, *(sum(column) for column in zip((0, 0.0, 0, 0.0), *own, strict=True)))
        )
    return tuple(joined)
