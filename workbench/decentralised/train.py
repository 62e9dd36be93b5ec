"""Trains a model on nodes that exchange it with their peers: true learning, virtual time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from workbench import training
from workbench.checks import check_kind
from workbench.decentralised.learner import Learner
from workbench.decentralised.model_exchange.epochwise import epochwise
from workbench.decentralised.model_exchange.gosgd import Share, gosgd
from workbench.decentralised.participant import Job
from workbench.decentralised.recorder import Recorder
from workbench.decentralised.selecting import EverySample, Selecting
from workbench.decentralised.setup import GossipSetup
from workbench.runtime import Fault, Run, SimulationError, Synchronized
from workbench.training import Standing, Trained
from workbench.training.draws import may_run_in_parallel

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.runtime.progress import Progress


@dataclass(frozen=True, eq=False)
class Built(training.Built["Trained[tuple[Tensor, ...]]"]):
    """A training before it starts.

    Attributes
    ----------
    states
        Each node's learner; steps of several may run beside each other.
    recorder
        Where epochs are noted.
    shares
        The nodes' weights in GoSGD; none with a mixing matrix.
    """

    states: list[Synchronized[Learner]]
    recorder: Recorder
    shares: list[Share]

    @property
    def learners(self) -> list[Learner]:
        """The nodes' learners, once the pending steps are done."""
        return [state.value for state in self.states]

    def standing(self) -> Standing:
        """By the epochs of all nodes; the loss is that of the last one noted."""
        planned = self.recorder.nodes * self.recorder.epochs
        done = len(self.recorder.rows)
        losses = []
        if done:
            epoch, _, name, _, loss, *_ = self.recorder.rows[-1]
            losses = [f"{name} in epoch {epoch}" + ("" if loss is None else f": loss {loss:.3f}")]
        percent = min(100, 100 * done // planned)  # a node that restarted may pass an epoch again
        return Standing(done, planned, percent, tuple(losses), "epochs of all nodes")

    def trained(self, run: Run) -> Trained[tuple[Tensor, ...]]:
        """The finished epochs, and the present weights."""
        weights = tuple(learner.flat.parameters for learner in self.learners)
        return Trained(self.recorder.frame(), weights, run)


def train(
    setup: GossipSetup,
    selecting: Selecting[Any] | None = None,
    *,
    faults: Iterable[Fault] = (),
    trace: bool = False,
    progress: Progress | bool = False,
    threads: int | None = None,
) -> Trained[tuple[Tensor, ...]]:
    """Train on every node until all have finished.

    Parameters
    ----------
    setup
        Who learns what, and how models are exchanged.
    selecting
        Chooses what each node learns from in each epoch; all samples by default.
    faults, trace, threads
        As for `workbench.runtime.simulate`. Which steps run beside each other, with the same bits
        for any number of threads, says ``parallel`` of the setup.
    progress
        True to show epochs, virtual time and loss; or a function, as for `simulate`.

    Returns
    -------
    Trained
        A row per epoch and node: ``epoch``, ``node``, its ``name``, ``at_s``, ``loss`` (mean over
        the epoch's samples, before each step), ``test_loss, top1`` (of the node's model after the
        exchange; null in epochs that are not evaluated), ``consensus_error`` (root of the mean
        squared distance from their mean of the models of all nodes that have a row of this epoch;
        null where one of them came when the first was as many epochs ahead as there are nodes),
        ``samples`` learnt from, and ``restarts`` of the node so far. Epochs in which a node was
        down, or that it skipped, have no row of it. Weights are each node's at the end. What Ctrl-C
        interrupts has the epochs that were done.

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
        faults = training.check_losing_nothing(
            faults, "give patience_s=..., the seconds after which a silent peer counts as gone"
        )
    with training.fixed_threads():
        built = build(setup, selecting)
    ended = training.run(built, faults=faults, trace=trace, progress=progress, threads=threads)
    if ended.run.ended == "done" and not ended.run.results:
        at = max((row[0] for row in built.recorder.rows), default=0)
        raise built.failed(
            SimulationError(
                f"nobody is left {f'after epoch {at}' if at else 'in epoch 1'}: all nodes crashed "
                "and stayed down; give one fewer Crash, or a Restart",
                ended.run,
            )
        )
    return ended


def _check_setup(setup: object) -> None:
    check_kind("setup", setup, GossipSetup, "a GossipSetup, as in GossipSetup('lenet5', ...)")


def build(setup: GossipSetup, selecting: Selecting[Any] | None = None) -> Built:
    """Make the programs of a run and what they learn with; errors as for `train`."""
    _check_setup(setup)
    if selecting is not None and not (hasattr(selecting, "fitted") and hasattr(selecting, "step")):
        raise TypeError(f"selecting is {selecting!r}; give a decentralised.Selecting, or None")
    chosen = (EverySample(setup.seed) if selecting is None else selecting).fitted(setup)
    flat = training.flatten(setup.made(), setup.dataset.input_shape)
    data, first = setup.dataset, flat.parameters
    parallel = may_run_in_parallel(setup, flat)
    learners = [
        Synchronized(
            Learner(node, setup.seed, flat.replica(), first, data, setup.sgd, name, parallel),
            parallel=parallel,
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
        return Built(setup, setup.cluster, programs, learners, recorder, [])
    assert setup.probability is not None
    shares = [Share(1 / setup.nodes) for _ in learners]
    programs = [gosgd(job, setup.probability, share) for share in shares]
    return Built(setup, setup.cluster, programs, learners, recorder, shares)
