"""Trains a model on device, edge and cloud under a policy: true learning, virtual time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, NamedTuple

import polars as pl

from workbench import training
from workbench.hiertrain.algorithms import PLANNERS
from workbench.hiertrain.costs.policy import Chain, Hybrid, Policy
from workbench.hiertrain.costs.problem import TIERS
from workbench.hiertrain.programs.serve import cluster_of, programs_of
from workbench.hiertrain.training.epochs import Epochs
from workbench.hiertrain.training.learning import BatchedSamples, TierLearner
from workbench.hiertrain.training.setup import Setup, check_setup
from workbench.names import choose
from workbench.runtime import Fault, Program, Run, SimulationError, simulate
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
        (fractions, of the whole model with the tiers' average buffers).
    weights
        The model's flat vector at the end of the last of these epochs; without any, its first.
    run
        The simulation behind it; ``run.interrupted`` if Ctrl-C ended it before its time.
    policy
        What it was trained under.
    losses
        Mean over the batch, of each iteration before its step.
    """

    epochs: pl.DataFrame
    weights: Tensor
    run: Run
    policy: Policy
    losses: list[float]


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


class Built(NamedTuple):
    """A run before it starts.

    Attributes
    ----------
    programs
        One per node of the cluster.
    policy
        What they carry out.
    learners
        What device, edge and cloud learn with.
    epochs
        Where they tell what they have learnt.
    """

    programs: list[Program]
    policy: Policy
    learners: list[TierLearner]
    epochs: Epochs

    @property
    def losses(self) -> list[float]:
        """Of each iteration so far, where the loss is computed."""
        return max((learner.losses for learner in self.learners), key=len)


def train(
    setup: Setup,
    policy: Policy | str = "hiertrain",
    *,
    faults: Iterable[Fault] = (),
    trace: bool = False,
    progress: Progress | bool = False,
    threads: int | None = None,
) -> Trained:
    """Train under a policy.

    Under every policy without quantisation the weights are those that one machine would find from
    the same batches, but for rounding, batch normalisation and dropout: see `TierLearner`. The
    same arguments give the same weights, bit for bit. Each epoch is evaluated as it ends, which
    takes no virtual time.

    Parameters
    ----------
    setup
        What to train, on what.
    policy
        One, or the name of a planner in `PLANNERS`.
    faults, trace
        As for `workbench.runtime.simulate`; the nodes are "device", "edge" and "cloud". They wait
        for each other, so faults may cost time (`SlowDown`), but lose nothing; where a run with
        others ends, `simulate` shows with what `build` returns.
    progress
        True to show epochs, virtual time and loss; or a function, as for `simulate`.
    threads
        As for `simulate`. Tiers hand each other features and gradients, so their work stays in
        order: more threads change nothing.

    Returns
    -------
    Trained
        What Ctrl-C interrupts has the epochs that were done.

    Raises
    ------
    UnknownNameError
        No such planner or model.
    ValueError
        A model that cannot be cut into its layers, or has other layers than the problem; a policy
        that does not fit the problem; a chain that parts two uses of one weight; a fault that
        loses messages or a node.
    TrainingError
        The loss is not finite any more, or a program failed; the error's `trained` has the epochs
        that were done.
    """
    faults = check_losing_nothing(faults, GOING_ON)
    with training.fixed_threads():
        built = build(setup, policy)
        epochs = built.epochs
        try:
            with _told(progress, setup, built) as told:
                run = simulate(
                    cluster_of(setup.problem, setup.sharing),
                    built.programs,
                    seed=setup.seed,
                    trace=trace,
                    faults=faults,
                    progress=told,
                    threads=threads,
                )
        except SimulationError as error:
            left = Trained(epochs.frame, epochs.weights, error.run, built.policy, built.losses)
            reason = why_ended(
                error,
                learning_rate=setup.sgd.learning_rate,
                done=len(epochs),
                planned=len(setup.epoch_ends),
            )
            raise TrainingError(reason, left) from error.__cause__ or error
    return Trained(epochs.frame, epochs.weights, run, built.policy, built.losses)


def build(setup: Setup, policy: Policy | str = "hiertrain") -> Built:
    """Make the programs of a run and what they learn with; arguments and errors as for `train`."""
    problem = check_setup(setup).problem
    chosen = policy if isinstance(policy, Policy) else choose("planner", policy, PLANNERS)(problem)
    chosen.check(problem)
    module, shape = setup.made(), setup.dataset.input_shape
    dtype = next((str(p.dtype).removeprefix("torch.") for p in module.parameters()), "float32")
    pieces = training.cut(module, shape, input_dtype=dtype)
    name = setup.model if isinstance(setup.model, str) else type(module).__name__
    if len(pieces) != problem.layers:
        raise ValueError(
            f"the problem has {problem.layers} layers, but {name} has {len(pieces)}; make it of "
            "the model's profile: problem_of(profile_model(...), ...)"
        )
    if isinstance(chosen, Chain):
        _check_ties(name, pieces, chosen)
    flat = training.flatten(module, shape, input_dtype=dtype)
    epochs = Epochs(flat, pieces, chosen, setup.dataset)
    learners = []
    for index, tier in enumerate(TIERS):
        replica = flat.replica()
        learners.append(
            TierLearner(
                tier,
                pieces.on(replica.module),
                replica,
                _own(chosen, tier, flat.layout),
                setup.sgd,
                (setup.seed, index),
                setup.epoch_ends,
                epochs.take,
            )
        )
    programs = programs_of(
        problem,
        chosen,
        setup.epoch_ends[-1] + 1,
        sharing=setup.sharing,
        learners=learners,
        samples=BatchedSamples(setup.dataset, setup.batches, flat.parameters),
    )
    return Built(programs, chosen, learners, epochs)


def _own(policy: Policy, tier: str, layout: training.Layout) -> list[slice]:
    """Parts of the vector that a tier updates."""
    if isinstance(policy, Hybrid):
        last = dict(zip(policy.order, (len(layout), policy.m_s, policy.m_l), strict=True))[tier]
        return [layout.layers_slice(1, last)] if last else []
    return [
        layout.layers_slice(first, last or 0)
        for holder, first, last, _ in policy.rows()
        if holder == tier
    ]


def _check_ties(name: str, pieces: training.Pieces, policy: Chain) -> None:
    """Refuse a chain in which two tiers would learn the same weight apart."""
    tiers: dict[str, str] = {}
    for layer, (used, tier) in enumerate(zip(pieces.parameters, policy.tiers, strict=True), 1):
        for weight in sorted(used):
            if tiers.setdefault(weight, tier) != tier:
                raise ValueError(
                    f"{name} uses {weight!r} in layer {layer} on the {tier} and in an earlier one "
                    f"on the {tiers[weight]}; give layers that share a weight to one tier, or use "
                    "a Hybrid"
                )


@contextmanager
def _told(
    progress: Progress | bool, setup: Setup, built: Built
) -> Iterator[Progress | Literal[False]]:
    """What to tell the simulation's progress to."""
    if progress is not True:
        yield progress
        return
    line, last = Line(), ""

    def show(now_s: float, events: int) -> None:
        nonlocal last
        del events
        line(last := progress_text(setup, built, now_s))

    try:
        yield show
    finally:
        line.close(last)


def progress_text(setup: Setup, built: Built, now_s: float) -> str:
    """How far training is at a virtual time: in one line."""
    losses, ends = built.losses, setup.epoch_ends
    said = [
        f"{len(built.epochs)} of {len(ends)} epochs",
        f"{100 * len(losses) // (ends[-1] + 1)} %",
        f"{now_s:,.1f} virtual seconds",
    ]
    said += [f"loss {losses[-1]:.3f} in iteration {len(losses)}"] if losses else []
    return ", ".join(said)
