"""Trains a model on simulated parameter servers under plans: true learning, virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, NamedTuple

import polars as pl

from workbench import training
from workbench.dynacomm.replanning.planning import PLANNING_S
from workbench.dynacomm.training.build import Built, Every, build
from workbench.dynacomm.training.epochs import Epochs
from workbench.dynacomm.training.setup import Setup
from workbench.runtime import Fault, Run, SimulationError, simulate
from workbench.runtime.progress import Line, Progress
from workbench.training.losing import GOING_ON, check_losing_nothing
from workbench.training.why_ended import why_ended

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Built", "Setup", "Trained", "TrainingError", "build", "train"]


class Trained(NamedTuple):
    """What came of it.

    Attributes
    ----------
    epochs
        A row per epoch: ``epoch, at_s`` (virtual), ``loss, train_top1, train_top5, top1, top5``
        (fractions, of the common model with the workers' average buffers).
    weights
        The model's flat vector at the end of the last of these epochs; without any, its first.
    run
        The simulation behind it; ``run.interrupted`` if Ctrl-C ended it before its time.
        ``run.results[w].plans`` are the plans of worker ``w``, iteration by iteration.
    """

    epochs: pl.DataFrame
    weights: Tensor
    run: Run


class TrainingError(SimulationError):
    """Training that could not go on; what it had until then is not lost.

    Attributes
    ----------
    trained
        The epochs that were done, as `train` returns them.
    """

    def __init__(self, message: str, trained: Trained) -> None:
        super().__init__(message, trained.run)
        self.trained = trained


def train(
    setup: Setup,
    planner: str = "dynacomm",
    *,
    replan_every: Every = "auto",
    planning_s: float = PLANNING_S,
    faults: Iterable[Fault] = (),
    trace: bool = False,
    progress: Progress | bool = False,
    threads: int | None = None,
) -> Trained:
    """Train under one planner's plans.

    Weights are the same, bit for bit, under every plan and however often it is made anew. Each
    epoch is evaluated as it ends, which takes no virtual time.

    Parameters
    ----------
    setup
        What to train, on what.
    planner
        Name in `PLANNERS`.
    replan_every
        Every worker profiles, and plans anew after so many iterations, each for itself:
        ``"epoch"``, 1 for each iteration, or any number between. None keeps the first plan, which
        is made for the bandwidth at 0 s and a worker of speed 1 in any case. ``"auto"``, the
        default, is ``"epoch"`` for ``"dynacomm"``, as in the paper (IV-C), and None for all others,
        of which the paper makes one plan.
    planning_s
        What planning anew takes a worker of speed 1; where the last push takes longer, nothing.
    faults, trace
        As for `workbench.runtime.simulate`. Servers wait for every worker, so faults may cost time
        (`SlowDown`), but lose nothing; where a run with others ends, `simulate` shows with what
        `build` returns.
    progress
        True to show epochs, virtual time and loss; or a function, as for `simulate`.
    threads
        As for `simulate`. Steps of different workers run beside each other, with the same bits for
        any number of threads; those of a model that draws at random (dropout), or whose code
        reaches beyond it, stay in order.

    Returns
    -------
    Trained
        What Ctrl-C interrupts has the epochs that were done.

    Raises
    ------
    UnknownNameError
        No such planner or model.
    ValueError
        More workers than samples, a server without a layer, a `replan_every` that is no interval,
        a `planning_s` that is no time, a fault that loses messages or a node.
    TrainingError
        The loss is not finite any more, or a worker or server failed; the error's `trained` has
        the epochs that were done.
    """
    faults = check_losing_nothing(faults, GOING_ON)
    with training.fixed_threads():
        built = build(setup, planner, replan_every=replan_every, planning_s=planning_s)
        epochs = Epochs(built.flat, setup.dataset, built.replicas, setup.servers)
        for store in built.stores:
            store.epoch_ended = epochs.take
        try:
            with _told(progress, built, epochs) as told:
                run = simulate(
                    setup.cluster,
                    built.programs,
                    seed=setup.seed,
                    trace=trace,
                    faults=faults,
                    progress=told,
                    threads=threads,
                )
        except SimulationError as error:
            left = Trained(epochs.frame, epochs.weights, error.run)
            reason = why_ended(
                error,
                learning_rate=setup.sgd.learning_rate,
                done=len(epochs),
                planned=setup.epochs,
            )
            raise TrainingError(reason, left) from error.__cause__ or error
    return Trained(epochs.frame, epochs.weights, run)


@contextmanager
def _told(
    progress: Progress | bool, built: Built, epochs: Epochs
) -> Iterator[Progress | Literal[False]]:
    """What to tell the simulation's progress to."""
    if progress is not True:
        yield progress
        return
    line, said = Line(), progress_text(built, epochs)
    last = ""

    def show(now_s: float, events: int) -> None:
        nonlocal last
        del events
        line(last := said(now_s))

    try:
        yield show
    finally:
        line.close(last)


def progress_text(built: Built, epochs: Epochs) -> Callable[[float], str]:
    """Return what tells, at a virtual time, how far training is: in one line."""
    iterations = built.ends[-1]

    def text(now_s: float) -> str:
        done = min(len(replica.losses) for replica in built.replicas)
        said = [
            f"{len(epochs)} of {len(built.ends)} epochs",
            f"{100 * done // iterations} %",
            f"{now_s:,.1f} virtual seconds",
        ]
        if done:
            losses = [replica.losses[done - 1] for replica in built.replicas]
            said.append(f"loss {sum(losses) / len(losses):.3f} in iteration {done}")
        if epochs.last_loss is not None:
            said.append(f"{epochs.last_loss:.3f} over all samples after epoch {len(epochs)}")
        return ", ".join(said)

    return text
