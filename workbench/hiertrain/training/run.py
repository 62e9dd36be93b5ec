"""Trains a model on device, edge and cloud under a policy: true learning, virtual time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench import training
from workbench.checks import check_kind
from workbench.errors import UserError
from workbench.hiertrain.algorithms import PLANNERS
from workbench.hiertrain.costs.policy import Chain, Hybrid, Policy
from workbench.hiertrain.costs.problem import TIERS
from workbench.hiertrain.programs.serve import programs_of
from workbench.hiertrain.training.learning import BatchedSamples, TierEpochs, TierLearner
from workbench.hiertrain.training.setup import Setup
from workbench.names import choose
from workbench.runtime import Fault, Run
from workbench.training import Standing
from workbench.training.tensors import number_type

if TYPE_CHECKING:
    from torch import Tensor  # noqa: F401, in a string

    from workbench.runtime.progress import Progress


@dataclass(frozen=True, eq=False)
class Trained(training.Trained["Tensor"]):
    """Result of a training.

    Attributes
    ----------
    policy
        What it was trained under.
    losses
        Mean over the batch, of each iteration before its step.
    """

    policy: Policy
    losses: list[float]


@dataclass(frozen=True, eq=False)
class Built(training.Built[Trained]):
    """A training before it starts.

    Attributes
    ----------
    policy
        What its programs carry out.
    learners
        The tiers' models and optimisers.
    epoch_ends
        Iterations up to the end of each epoch.
    epochs
        Evaluates the assembled model.
    """

    policy: Policy
    learners: list[TierLearner]
    epoch_ends: tuple[int, ...]
    epochs: TierEpochs

    @property
    def losses(self) -> list[float]:
        """Of each iteration so far, where the loss is computed."""
        return max((learner.losses for learner in self.learners), key=len)

    def standing(self) -> Standing:
        """By the iterations of the tier that computes the loss."""
        losses = self.losses
        loss = losses[-1] if losses else None
        ends = self.epoch_ends
        return Standing.of(self.epochs, len(ends), len(losses), ends[-1], loss)

    def trained(self, run: Run) -> Trained:
        """The finished epochs."""
        return Trained(self.epochs.frame, self.epochs.weights, run, self.policy, self.losses)


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

    Under every policy without quantisation the weights are those of one machine with the same
    batches, but for rounding, batch normalisation and dropout: see `TierLearner`. The same
    arguments give the same weights, bit for bit. Each epoch is evaluated as it ends, which takes no
    virtual time.

    Parameters
    ----------
    setup
        What to train, on what.
    policy
        One, or the name of a planner in `PLANNERS`.
    faults, trace
        As for `workbench.runtime.simulate`; the nodes are "device", "edge" and "cloud". Only faults
        that lose nothing, such as `SlowDown`; for others, `simulate` what `build` returns.
    progress
        True to show epochs, virtual time and loss; or a function, as for `simulate`.
    threads
        As for `simulate`; tiers wait for each other, so more threads change nothing.

    Returns
    -------
    Trained
        Epochs of the whole model with the tiers' average buffers: ``epoch, at_s, loss, train_top1,
        train_top5, top1, top5``. What Ctrl-C interrupts has the finished epochs.

    Raises
    ------
    UnknownNameError
        No such planner or model.
    ValueError
        A model that cannot be cut into its layers, or has other layers than the problem; a policy
        that does not fit the problem; a chain that parts two uses of one weight; a fault that
        loses messages or a node.
    TrainingError
        The loss is not finite any more, or a program failed; the error's `trained` has the finished
        epochs.
    """
    faults = training.check_losing_nothing(faults)
    with training.fixed_threads():
        built = build(setup, policy)
    return training.run(built, faults=faults, trace=trace, progress=progress, threads=threads)


def build(setup: Setup, policy: Policy | str = "hiertrain") -> Built:
    """Make the programs of a run and what they learn with; arguments and errors as for `train`."""
    check_kind("setup", setup, Setup, "a Setup, such as Setup('lenet5', dataset, problem)")
    problem = setup.problem
    chosen = policy if isinstance(policy, Policy) else choose("planner", policy, PLANNERS)(problem)
    chosen.check(problem)
    module, shape = setup.made(), setup.dataset.input_shape
    dtype = str(number_type(module)).removeprefix("torch.")
    pieces = training.cut(module, shape, input_dtype=dtype)
    name = setup.model if isinstance(setup.model, str) else type(module).__name__
    if len(pieces) != problem.layers:
        raise UserError(
            f"the problem has {problem.layers} layers, but {name} has {len(pieces)}; make it of "
            "the model's profile: problem_of(profile_model(...), ...)"
        )
    if isinstance(chosen, Chain):
        _check_ties(name, pieces, chosen)
    flat = training.flatten(module, shape, input_dtype=dtype)
    epochs = TierEpochs(flat, pieces, chosen, setup.dataset)
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
        setup.epoch_ends[-1],
        sharing=setup.sharing,
        learners=learners,
        samples=BatchedSamples(setup.dataset, setup.batches, flat.parameters),
    )
    return Built(setup, setup.cluster, programs, chosen, learners, setup.epoch_ends, epochs)


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
                raise UserError(
                    f"{name} uses {weight!r} in layer {layer} on the {tier} and in an earlier one "
                    f"on the {tiers[weight]}; give layers that share a weight to one tier, or use "
                    "a Hybrid"
                )
