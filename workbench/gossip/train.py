"""Trains a model on nodes that exchange it with their peers: true learning, virtual time."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from workbench import training
from workbench.gossip.epochwise import epochwise
from workbench.gossip.gosgd import Share, gosgd
from workbench.gossip.learner import Learner
from workbench.gossip.life import Job
from workbench.gossip.recorder import EPOCHS, Recorder
from workbench.gossip.selecting import EverySample, Selecting
from workbench.gossip.setup import GossipSetup
from workbench.runtime import Crash, Fault, LinkDown, Lossy, Program, Run, simulate

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.runtime.progress import Progress

__all__ = ["EPOCHS", "Built", "Trained", "build", "train"]


class Trained(NamedTuple):
    """What came of it.

    Attributes
    ----------
    epochs
        A row per epoch and node: ``epoch`` (from 1), ``node``, ``at_s`` (virtual), ``loss`` (mean
        over the epoch's samples, before each step), ``test_loss, top1`` (of the node's model behind
        the exchange; null in epochs that are not evaluated), ``consensus_error`` (root of the mean
        squared distance of all nodes' models of this epoch from their mean, the same in all its
        rows), ``samples`` learnt from, and ``restarts`` of the node so far. Epochs in which a node
        was down, or that it skipped, have no row of it.
    weights
        Each node's flat vector at the end.
    run
        The simulation behind it; ``run.interrupted`` if Ctrl-C ended it before its time.
    """

    epochs: pl.DataFrame
    weights: tuple[Tensor, ...]
    run: Run


class Built(NamedTuple):
    """A run before it starts.

    Attributes
    ----------
    programs
        One per node.
    learners
        What they learn with.
    recorder
        Where epochs are noted.
    shares
        Their weights in GoSGD; none with a mixing matrix.
    """

    programs: list[Program]
    learners: list[Learner]
    recorder: Recorder
    shares: list[Share]


def train(
    setup: GossipSetup,
    selecting: Selecting[Any] | None = None,
    *,
    faults: Iterable[Fault] = (),
    trace: bool = False,
    progress: Progress | bool = False,
) -> Trained:
    """Train on every node until all are through.

    Parameters
    ----------
    setup
        Who learns what, and how models are exchanged.
    selecting
        Chooses what each node learns from in each epoch; all samples by default.
    faults, trace, progress
        As for `workbench.runtime.simulate`.

    Raises
    ------
    ValueError
        Something may get lost, but `setup` waits for ever.
    """
    faults = tuple(faults)
    losing = [fault for fault in faults if isinstance(fault, Crash | LinkDown | Lossy)]
    if losing and setup.patience_s is None and setup.nodes > 1:
        raise ValueError(
            f"{losing[0]} loses messages that others would wait for without end; give the setup "
            "patience_s, the seconds after which a silent peer counts as gone"
        )
    with training.fixed_threads():
        built = build(setup, selecting)
        run = simulate(
            setup.cluster,
            built.programs,
            seed=setup.seed,
            trace=trace,
            faults=faults,
            progress=progress,
        )
    weights = tuple(learner.flat.parameters for learner in built.learners)
    return Trained(built.recorder.frame(), weights, run)


def build(setup: GossipSetup, selecting: Selecting[Any] | None = None) -> Built:
    """Make the programs of a run and what they learn with."""
    module = training.initialise(setup.model, setup.seed, classes=len(setup.dataset.classes))
    flat = training.flatten(module, setup.dataset.input_shape)
    learners = [
        Learner(node, setup.seed, flat.replica(), flat.parameters, setup.dataset, setup.sgd)
        for node in range(setup.nodes)
    ]
    recorder = Recorder(setup.nodes, setup.epochs, setup.evaluate_every)
    layout = flat.layout
    job = Job(
        setup=setup,
        selecting=EverySample(setup.seed) if selecting is None else selecting,
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
