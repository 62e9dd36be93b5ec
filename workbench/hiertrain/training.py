"""Trains a model on device, edge and cloud under a policy: true learning, virtual time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from workbench import training
from workbench.hiertrain.algorithms import PLANNERS
from workbench.hiertrain.costs import TIERS, Chain, Policy, Problem, check_problem
from workbench.hiertrain.learning import TierEpochs, TierLearner, TierModel
from workbench.hiertrain.programs import SHARING, cluster_of, programs_of
from workbench.runtime import Fault, Run
from workbench.training import RunOptions, TrainingError
from workbench.training.passes import Batches, shared_by_places
from workbench.utils.checks import UserError, check_kind, check_name, choose

if TYPE_CHECKING:
    from torch import Tensor  # noqa: F401, in a string

    from workbench.clusters import Cluster
    from workbench.hiertrain.costs import Row
    from workbench.runtime import Context, Program
    from workbench.runtime.progress import Progress

__all__ = ["Setup", "Trained", "TrainingError", "train"]


@dataclass(frozen=True)
class Setup(training.WholeBatches):
    """A training on device, edge and cloud.

    Attributes
    ----------
    model, dataset, objective, outputs, sgd, seed, epochs, iterations
        As for `workbench.training.WholeBatches`.
    problem
        Machines, links and batch; of as many layers as the model.
    sharing
        Whether messages share the machines' interfaces; see `cluster_of`.
    """

    problem: Problem
    sharing: str = "none"

    in_own_type = True

    def __post_init__(self) -> None:
        check_problem(self.problem)
        if self.problem.accumulate > 1:
            raise UserError(
                f"the problem accumulates {self.problem.accumulate} batches; training takes a step "
                "for each, so leave accumulate at 1"
            )
        super().__post_init__()
        check_name("sharing", self.sharing, SHARING)

    @property
    def samples_per_batch(self) -> int:
        """Samples of the problem's batch."""
        return self.problem.batch

    @property
    def cluster(self) -> Cluster:
        """Device, edge and cloud."""
        return cluster_of(self.problem, self.sharing)

    def programs(self, how: Policy | str = "hiertrain") -> TierPrograms:
        """Programs of the nodes, and what they learn with; `how` as for `train`."""
        problem = self.problem
        policy = how if isinstance(how, Policy) else choose("planner", how, PLANNERS)(problem)
        policy.check(problem)
        flat, batches = self.begin()
        pieces, ends = self.pieces(flat), self.epoch_ends
        name = self.model if isinstance(self.model, str) else type(flat.module).__name__
        if len(pieces) != problem.layers:
            raise UserError(
                f"the problem has {problem.layers} layers, but {name} has {len(pieces)}; make it "
                "of the model's profile: problem_of(profile_model(...), ...)"
            )
        if isinstance(policy, Chain) and (shared := shared_by_places(pieces, policy.tiers)):
            weight, layer, other, tier = shared
            raise UserError(
                f"{name} uses {weight!r} in layer {layer} on the {tier} and in an earlier one "
                f"on the {other}; give layers that share a weight to one tier, or use a Hybrid"
            )
        epochs = TierEpochs(flat, pieces, policy, self.dataset, self.objective)
        learners = []
        for index, tier in enumerate(TIERS):
            replica, seed = flat.replica(), (self.seed, index)
            held = policy.held(tier, len(pieces))
            learners.append(
                TierLearner(
                    tier=tier,
                    pieces=pieces.on(replica.module),
                    flat=replica,
                    own=[flat.layout.layers_slice(first, last) for first, last in held],
                    sgd=self.sgd,
                    seed=seed,
                    epoch_ends=ends,
                    objective=self.objective,
                )
            )
        programs = programs_of(
            problem,
            policy,
            ends[-1],
            sharing=self.sharing,
            learners=learners,
            samples=lambda request: batches(request.iteration, slice(request.first, request.last)),
        )
        rows = policy.rows(len(pieces))
        for index, learner in enumerate(learners):
            own_rows = [row for row in rows if row[0] == learner.tier]
            programs[index] = TierProgram(programs[index], learner, own_rows, batches)
        return TierPrograms(self, self.cluster, programs, epochs, ends, policy)

    def check_faults(self, faults: Sequence[Fault], how: object) -> None:
        """Refuse those that lose anything: all tiers wait for each other."""
        training.check_losing_nothing(faults)


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
class TierProgram:
    """A tier's program, and its learner, which computes `rows` of the policy."""

    program: Program
    learner: TierLearner
    rows: Sequence[Row]
    batches: Batches

    async def __call__(self, context: Context) -> None:
        """Run the program."""
        await self.program(context)

    def warm_up(self) -> None:
        """Pass samples through the tier's layers and back."""
        self.learner.warm_up(self.rows, partial(self.batches, 0))


@dataclass(frozen=True, eq=False)
class TierPrograms(training.OneModel[Trained]):
    """Programs of the tiers under `policy`, and what they record."""

    epochs: TierEpochs
    policy: Policy

    def observe(self, at_s: float, node: int, value: Any) -> None:
        """Take the loss of an iteration, or a tier's model at the end of an epoch."""
        if isinstance(value, TierModel):
            self.epochs.take(value, at_s)
        else:
            self.losses.append(value)

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
    """Train under a policy, or under that of a planner in `PLANNERS`.

    Under every policy without quantisation the weights are those of one machine with the same
    batches, but for rounding, batch normalisation and dropout: see `TierLearner`. The same
    arguments give the same weights, bit for bit. Each epoch is evaluated as it ends, with the
    tiers' average buffers, which takes no virtual time.

    The options are those of `training.RunOptions`; the nodes are "device", "edge" and "cloud". Only
    faults that lose nothing are taken, such as `SlowDown`; for others, `simulate` what
    ``setup.programs`` returns. What Ctrl-C interrupts has the finished epochs.

    Raises
    ------
    TrainingError
        The loss is not finite any more, or a program failed; the error's `trained` has the finished
        epochs.
    """
    check_kind("setup", setup, Setup, "a Setup, such as Setup('lenet5', dataset, problem)")
    return training.train(setup, policy, RunOptions(faults, trace, progress, threads))
