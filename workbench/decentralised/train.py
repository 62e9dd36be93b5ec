"""Trains a model on nodes that exchange it with their peers: true learning, virtual time."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from workbench import training
from workbench.clusters.checks import check_kind
from workbench.decentralised.learner import Learner
from workbench.decentralised.model_exchange.epochwise import epochwise
from workbench.decentralised.model_exchange.gosgd import Share, gosgd
from workbench.decentralised.participant import Job
from workbench.decentralised.recorder import EPOCHS, Recorder
from workbench.decentralised.selecting import EverySample, Selecting
from workbench.decentralised.setup import GossipSetup
from workbench.runtime import Fault, Program, Run, SimulationError, Synchronized, simulate
from workbench.training.draws import must_stay_in_order
from workbench.training.losing import check_losing_nothing
from workbench.training.why_ended import why_ended

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.runtime.progress import Progress

__all__ = ["EPOCHS", "Built", "Trained", "TrainingError", "build", "train"]


class Trained(NamedTuple):
    """What came of it.

    Attributes
    ----------
    epochs
        A row per epoch and node: ``epoch`` (from 1), ``node``, ``at_s`` (virtual), ``loss`` (mean
        over the epoch's samples, before each step), ``test_loss, top1`` (of the node's model behind
        the exchange; null in epochs that are not evaluated), ``consensus_error`` (root of the mean
        squared distance from their mean of the models of all nodes that have a row of this epoch,
        the same in all these rows; null where it is not known, because one of them came when the
        first was as many epochs ahead as there are nodes), ``samples`` learnt from, and
        ``restarts`` of the node so far. Epochs in which a node was down, or that it skipped, have
        no row of it.
    weights
        Each node's flat vector at the end.
    run
        The simulation behind it; ``run.interrupted`` if Ctrl-C ended it before its time.
    """

    epochs: pl.DataFrame
    weights: tuple[Tensor, ...]
    run: Run


class TrainingError(SimulationError):
    """Training that could not go on; what it had until then is not lost.

    Attributes
    ----------
    trained
        The epochs that were done, as `train` returns them, and the weights as they stood.
    """

    def __init__(self, message: str, trained: Trained) -> None:
        super().__init__(message, trained.run)
        self.trained = trained

    def __reduce__(self) -> tuple[type[TrainingError], tuple[str, Trained]]:
        """For other processes, where exceptions are made anew of their arguments."""
        return type(self), (str(self), self.trained)


class Built(NamedTuple):
    """A run before it starts.

    Attributes
    ----------
    programs
        One per node.
    states
        What they learn with: a `Learner` each, whose steps may run beside each other.
    recorder
        Where epochs are noted.
    shares
        Their weights in GoSGD; none with a mixing matrix.
    """

    programs: list[Program]
    states: list[Synchronized[Learner]]
    recorder: Recorder
    shares: list[Share]

    @property
    def learners(self) -> list[Learner]:
        """What they learn with, once the steps that were asked for are done."""
        return [state.value for state in self.states]


def train(
    setup: GossipSetup,
    selecting: Selecting[Any] | None = None,
    *,
    faults: Iterable[Fault] = (),
    trace: bool = False,
    progress: Progress | bool = False,
    threads: int | None = None,
) -> Trained:
    """Train on every node until all are through.

    Parameters
    ----------
    setup
        Who learns what, and how models are exchanged.
    selecting
        Chooses what each node learns from in each epoch; all samples by default.
    faults, trace, progress, threads
        As for `workbench.runtime.simulate`. Steps of different nodes run beside each other, with
        the same bits for any number of threads; those of a model that draws at random (dropout),
        or whose code reaches beyond it (global variables), stay in order.

    Returns
    -------
    Trained
        Ctrl-C ends a run without an error: ``run.interrupted`` tells, and the epochs that were
        done are there.

    Raises
    ------
    ValueError
        Something may get lost, but `setup` waits for ever; `selecting` does not fit `setup`.
    TrainingError
        The loss is not finite any more, a program failed, or all nodes crashed for good; the
        error's `trained` has the epochs that were done.
    """
    _check_setup(setup)
    if setup.patience_s is None and setup.nodes > 1:
        faults = check_losing_nothing(
            faults, "give patience_s=..., the seconds after which a silent peer counts as gone"
        )
    with training.fixed_threads():
        built = build(setup, selecting)
        try:
            run = simulate(
                setup.cluster,
                built.programs,
                seed=setup.seed,
                trace=trace,
                faults=faults,
                progress=progress,
                threads=threads,
            )
        except SimulationError as error:
            raise _error(error, setup, built) from error.__cause__ or error
    if run.ended == "done" and not run.results:
        at = max((row[0] for row in built.recorder.rows), default=0)
        raise _error(
            SimulationError(
                f"nobody is left {f'after epoch {at}' if at else 'in epoch 1'}: all nodes crashed "
                "and stayed down; give one fewer Crash, or a Restart",
                run,
            ),
            setup,
            built,
        )
    return _trained(built, run)


def _trained(built: Built, run: Run) -> Trained:
    weights = tuple(learner.flat.parameters for learner in built.learners)
    return Trained(built.recorder.frame(), weights, run)


def _error(error: SimulationError, setup: GossipSetup, built: Built) -> TrainingError:
    left = _trained(built, error.run)
    reason = why_ended(
        error,
        learning_rate=setup.sgd.learning_rate,
        done=len(left.epochs),
        planned=setup.nodes * setup.epochs,
        what="epochs, over all nodes,",
    )
    return TrainingError(reason, left)


def _check_setup(given: object) -> None:
    check_kind("setup", given, GossipSetup, "a GossipSetup, as in GossipSetup('lenet5', ...)")


def build(setup: GossipSetup, selecting: Selecting[Any] | None = None) -> Built:
    """Make the programs of a run and what they learn with; errors as for `train`."""
    _check_setup(setup)
    if selecting is not None and not (hasattr(selecting, "fitted") and hasattr(selecting, "step")):
        raise TypeError(f"selecting is {selecting!r}; give a decentralised.Selecting, or None")
    chosen = (EverySample(setup.seed) if selecting is None else selecting).fitted(setup)
    flat = training.flatten(setup.made(), setup.dataset.input_shape)
    data, first = setup.dataset, flat.parameters
    in_order = must_stay_in_order(flat, data)
    learners = [
        Synchronized(
            Learner(node, setup.seed, flat.replica(), first, data, setup.sgd, name, in_order),
            in_order=in_order,
        )
        for node, name in enumerate(setup.cluster.names)
    ]
    recorder = Recorder(setup.nodes, setup.epochs, setup.evaluate_every)
    layout = flat.layout
    job = Job(
        setup=setup,
        selecting=chosen,
        learners=learners,
        recorder=recorder,
        sample_s=setup.seconds_per_sample,
        tensor_bytes=tuple(
            float(prod(shape) * layout.item_bytes) for layer in layout.tensors for _, shape in layer
        ),
    )
    if setup.mixing is not None:
        programs = [epochwise(job, setup.mixing) for _ in learners]
        return Built(programs, learners, recorder, [])
    assert setup.probability is not None
    shares = [Share(1 / setup.nodes) for _ in learners]
    programs = [gosgd(job, setup.probability, share) for share in shares]
    return Built(programs, learners, recorder, shares)
