"""Run programs on a cluster in virtual time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from workbench.runtime.programs import Programs
from workbench.runtime.progress import Progress, check_progress, shown
from workbench.runtime.simulation import Simulation

if TYPE_CHECKING:
    from workbench.clusters import Cluster
    from workbench.runtime.faults import Fault
    from workbench.runtime.run import Run


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
        cluster, programs, seed=seed, trace=trace, faults=faults, threads=threads
    )
    try:
        if progress is True:
            with shown(until_s) as show:
                return simulation.run(until_s, show)
        return simulation.run(until_s, progress or None)
    finally:
        simulation.close()
