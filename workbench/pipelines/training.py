"""Training in a pipeline: true learning, virtual time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench import training
from workbench.pipelines.costs import check, holders, reductions
from workbench.pipelines.learning import StageEpochs, StageLearner, names_of, slices_of
from workbench.pipelines.problems import Problem
from workbench.pipelines.programs import cluster_of, programs_of
from workbench.pipelines.schedules import Plan
from workbench.profiles import Tied
from workbench.runtime import Fault, Run
from workbench.training import FlatModel, Pieces, RunOptions, TrainingError
from workbench.utils.checks import UserError, check_kind, check_truth

if TYPE_CHECKING:
    from torch import Tensor  # noqa: F401, in a string

    from workbench.clusters import Cluster
    from workbench.runtime.progress import Progress

__all__ = ["Setup", "Trained", "TrainingError", "train"]


@dataclass(frozen=True)
class Setup(training.WholeBatches):
    """A training in a pipeline.

    Attributes
    ----------
    model, dataset, objective, outputs, sgd, seed, epochs, iterations
        As for `workbench.training.WholeBatches`.
    problem
        Nodes, links and the batch of a step; of as many layers as the model.
    flushes
        Whether a step's micro-batches all end before the update. Without, it is PipeDream: each
        micro-batch is a step of SGD, and stages use weights of different age.
    cluster
        Nodes and links on which it runs; by default those of the problem.
    """

    problem: Problem
    flushes: bool = True
    cluster: Cluster | None = None

    in_own_type = True

    def __post_init__(self) -> None:
        check_kind("the problem", self.problem, Problem, "a pipelines.Problem")
        check_truth("flushes", self.flushes)
        super().__post_init__()
        if self.cluster is None:
            object.__setattr__(self, "cluster", cluster_of(self.problem))

    @property
    def samples_per_batch(self) -> int:
        """Samples of the problem's batch."""
        return self.problem.batch

    def programs(self, how: Plan) -> StagePrograms:
        """Programs of the nodes with their learners; `how` is the plan."""
        problem, plan = self.problem, how
        check(problem, plan)
        flat, batches = self.begin()
        pieces, ends = self.pieces(flat), self.epoch_ends
        name = self.model if isinstance(self.model, str) else type(flat.module).__name__
        if len(pieces) != problem.layers:
            raise UserError(
                f"the problem has {problem.layers} layers, but {name} has {len(pieces)}; make it "
                "of the model's profile"
            )
        trained = next(n for n, used in enumerate(pieces.parameters, start=1) if used)
        if trained < problem.first_trained:
            raise UserError(
                f"the problem trains layers from {problem.first_trained} on, but {name} from "
                f"{trained} on; give first_trained={trained}, or freeze the layers below"
            )
        names = [names_of(pieces.parameters, stage) for stage in plan.stages]
        parts = [slices_of(of_stage, flat) for of_stage in names]
        summed = _summed(problem, plan, pieces, flat, name)
        assert self.cluster is not None
        learners = []
        for node, node_name in enumerate(self.cluster.names[: problem.nodes]):
            replica = flat.replica()
            own = [
                of_stage
                for of_stage, stage in zip(names, plan.stages, strict=True)
                if node in stage.nodes
            ]
            learners.append(
                StageLearner(
                    node=node,
                    name=node_name,
                    plan=plan,
                    first_trained=problem.first_trained,
                    pieces=pieces.on(replica.module),
                    flat=replica,
                    batches=batches,
                    own=slices_of(frozenset().union(*own), flat),
                    summed=summed,
                    sgd=self.sgd,
                    seed=self.seed,
                    epoch_ends=ends,
                    objective=self.objective,
                    flushes=self.flushes,
                )
            )
        programs = programs_of(problem, plan, ends[-1], flushes=self.flushes, learners=learners)
        epochs = StageEpochs(
            flat, pieces, plan, parts, dataset=self.dataset, objective=self.objective
        )
        return StagePrograms(self, self.cluster, programs, epochs, ends, plan, losses=epochs.losses)

    def check_faults(self, faults: Sequence[Fault], how: object) -> None:
        """Refuse faults that lose anything: all stages wait for each other."""
        training.check_losing_nothing(faults)


def _summed(
    problem: Problem, plan: Plan, pieces: Pieces, flat: FlatModel, name: str
) -> dict[int, list[slice]]:
    """Parts of the vector that are summed in each of `reductions`.

    Raises UserError: the model ties other weights over the plan's stages than the problem does.
    """
    stated = [
        Tied(weight.size_bytes, tuple(sorted(weight.layers)))
        for weight in problem.tied
        if len(holders(plan, weight)) > 1
    ]
    tied = _tied_over_stages(plan, pieces, flat)
    if sorted(stated) != sorted(tied.values()):
        uses = [f"uses {tensor!r} in layers {weight.layers}" for tensor, weight in tied.items()]
        raise UserError(
            f"the problem's weights tied over stages are {stated or 'none'}, but {name} "
            f"{' and '.join(uses) or 'ties none'}; give tied=({', '.join(map(str, tied.values()))})"
        )
    groups = [
        (stage.nodes, slices_of(names_of(pieces.parameters, stage) - tied.keys(), flat))
        for stage in plan.stages
    ]
    for weight in stated:
        tensor = next(tensor for tensor, other in tied.items() if other == weight)
        del tied[tensor]
        nodes = {node for number in holders(plan, weight) for node in plan.stages[number].nodes}
        groups.append((tuple(sorted(nodes)), slices_of({tensor}, flat)))
    summed = [parts for nodes, parts in groups if len(nodes) > 1 and parts]
    sizes = [each.size_bytes for each in reductions(problem, plan)]
    if len(sizes) != len(summed):
        item_bytes = flat.layout.item_bytes
        own = [item_bytes * sum(part.stop - part.start for part in parts) for parts in summed]
        raise UserError(
            f"the problem sums {sizes} bytes of gradients, but {name} has {own} bytes; make the "
            "problem of the model's profile"
        )
    return dict(enumerate(summed))


def _tied_over_stages(plan: Plan, pieces: Pieces, flat: FlatModel) -> dict[str, Tied]:
    """Weights that layers of several stages use, by the name of their tensor."""
    tied = {}
    for tensor, part in flat.layout.tensor_slices.items():
        layers = [layer for layer, used in enumerate(pieces.parameters, start=1) if tensor in used]
        weight = Tied((part.stop - part.start) * flat.layout.item_bytes, tuple(layers))
        if len(holders(plan, weight)) > 1:
            tied[tensor] = weight
    return tied


@dataclass(frozen=True, eq=False)
class Trained(training.Trained["Tensor"]):
    """Result of a training.

    Attributes
    ----------
    plan
        The plan of the training.
    losses
        Mean loss over the batch of each step, before its update.
    """

    plan: Plan
    losses: list[float]


@dataclass(frozen=True, eq=False)
class StagePrograms(training.OneModel[Trained]):
    """Programs of the nodes under `plan`, and their records."""

    epochs: StageEpochs
    plan: Plan

    def observe(self, at_s: float, node: int, value: Any) -> None:
        """Take a node's loss of a step, or its model at the end of an epoch."""
        self.epochs.observe(at_s, node, value)

    def trained(self, run: Run) -> Trained:
        """Return the finished epochs."""
        return Trained(self.epochs.frame, self.epochs.weights, run, self.plan, self.losses)


def train(
    setup: Setup,
    plan: Plan,
    *,
    faults: Iterable[Fault] = (),
    trace: bool = False,
    progress: Progress | bool = False,
    threads: int | None = None,
) -> Trained:
    """Train under a plan.

    With `Setup.flushes` the weights are those of one machine that accumulates gradients over the
    same micro-batches: bit for bit with one replica a stage, unless layers share a weight. Each
    epoch is evaluated as it ends, which takes no virtual time.

    The options are those of `training.RunOptions`. Only faults that lose nothing are taken, such as
    `SlowDown`; for others, `simulate` what ``setup.programs`` returns.

    Raises
    ------
    TrainingError
        The loss is not finite any more, or a program failed; the error's `trained` has the finished
        epochs.
    """
    check_kind("setup", setup, Setup, "a Setup, such as Setup('lenet5', dataset, problem)")
    return training.train(setup, plan, RunOptions(faults, trace, progress, threads))
