"""The same programs as real processes: `measure`, beside `simulate`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from workbench.clusters import Cluster
from workbench.clusters.cluster import Name
from workbench.runtime.faults import Fault, check_faults
from workbench.runtime.measured import packing
from workbench.runtime.measured.capacity import check_bandwidth, without_roomy_interfaces
from workbench.runtime.measured.driver import Driver, Plan
from workbench.runtime.measured.run import MeasuredRun
from workbench.runtime.measured.sessions import current_or_new
from workbench.runtime.simulation import Programs, Simulation, by_node
from workbench.utils.checks import UserError, check_number, check_truth, check_whole

if TYPE_CHECKING:
    from workbench.runtime.context import Observer, Program

MOST_PROCESSES = 256


def measure(
    cluster: Cluster,
    programs: Programs,
    *,
    seed: int = 0,
    trace: bool = False,
    faults: Iterable[Fault] = (),
    until_s: float | None = None,
    as_measured: bool = False,
    address: str | None = None,
    resources: Mapping[Name, Mapping[str, float]] | None = None,
    observer: Observer | None = None,
) -> MeasuredRun:
    """Run a program on every node as a process of its own, over links of the stated speed.

    Ray places, starts and watches the processes. Messages travel as real bytes over TCP
    connections of their own, `Message.size_bytes` of them, no faster than the link is; time is
    that of a real clock. Programs are those of `simulate`, pickled: what they share there, each
    process has for itself here, and only what a program returns comes back.

    Parameters
    ----------
    cluster, programs, seed, trace, faults, until_s
        As for `simulate`. A crash ends the process; a restart starts the program in another, in
        which nothing is kept. Uplinks and downlinks that several links share are shared
        max-min fairly; where links of several nodes share one, a process more times them, which
        makes their transfers a little later.
    as_measured
        Let `Context.compute` take the time that its work takes, in place of `cost_s` over the
        node's speed. Otherwise it waits until that is over; work that takes longer is reported.
    address
        Of a Ray cluster: ``"auto"`` or ``"ray://..."``. By default Ray is started on this machine,
        on its loopback, and ended afterwards; `session` keeps it for several runs.
    resources
        Of Ray's, that the machine of a node must have, by node: ``{"phone": {"arm": 1}}``.
    observer
        Called with each observation of a program's once the run has ended, in the order of the
        clock: see `Context.record`.

    Returns
    -------
    MeasuredRun
        As of `simulate`, in seconds of the clock, with how late transfers and work were. What
        Ctrl-C interrupts is a run too.

    Raises
    ------
    ValueError
        As for `simulate`; Ray is not installed; programs that cannot be pickled.
    ProgramError, DeadlockError, SimulationError
        A program failed, all wait for each other, or a process ended by itself; the error's `run`
        holds the rest.

    Deviation: a crash ends a program without its ``finally``, and a node that comes back draws a
    link's losses from the beginning.
    """
    check_truth("trace", trace)
    check_truth("as_measured", as_measured)
    end_s = math.inf if until_s is None else check_number("until_s", until_s)
    if not end_s >= 0:
        raise UserError(f"until_s is {until_s}; give the seconds at which to stop")
    of_node = by_node(cluster, programs)
    listed = check_faults(faults)
    check_crashes(cluster, listed)
    plan = Plan(
        without_roomy_interfaces(cluster),
        {node: _pickled(cluster.names[node], program) for node, program in of_node.items()},
        check_whole("seed", seed, 0),
        listed,
        trace,
        as_measured,
        end_s,
        check_resources(cluster, {} if resources is None else resources),
        observer,
    )
    if plan.resources and address is None:
        raise UserError("resources place nodes on a Ray cluster; give its address, too")
    processes = plan.processes()
    if len(processes) > MOST_PROCESSES:
        raise UserError(
            f"the run has {len(processes)} processes, nodes and restarts together; at most "
            f"{MOST_PROCESSES} are started. Give fewer faults"
        )
    if address is None:
        check_bandwidth(cluster)
    with current_or_new(len(processes), address) as session:
        return Driver(plan, session).run()


def check_resources(cluster: Cluster, resources: Any) -> dict[int, dict[str, float]]:
    """Return what nodes need of Ray's resources, by their indices."""
    if not (
        isinstance(resources, Mapping)
        and all(isinstance(wanted, Mapping) for wanted in resources.values())
    ):
        raise UserError(
            f"resources is {resources!r}; give what a node needs by its name, such as "
            "{'phone': {'arm': 1}}"
        )
    for node, wanted in resources.items():
        for name, count in wanted.items():
            if (
                not isinstance(name, str)
                or not 0 <= check_number(f"resource {name}", count) < math.inf
            ):
                raise UserError(
                    f"{node} wants {count} of the resource {name!r}; give a name and a number of "
                    "at least 0"
                )
    return {cluster.index(node): dict(wanted) for node, wanted in resources.items()}


def check_crashes(cluster: Cluster, faults: tuple[Fault, ...]) -> None:
    """Refuse faults that the simulation refuses: it is asked, without running anything."""
    Simulation(cluster, {}, faults=faults).close()


def _pickled(name: str, program: Program) -> bytes:
    try:
        return packing.dumps(program)
    except Exception as error:
        raise UserError(
            f"the program of {name} cannot be sent to another process: {error}; let it hold "
            "arrays, models and functions, and open files, locks and connections itself"
        ) from error
