"""Trains a model on a pool of nodes: true learning, virtual time."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench import training
from workbench.olpb.algorithms import METHODS, SCANNING
from workbench.olpb.algorithms.decoupled import cut
from workbench.olpb.algorithms.levels import LEVELS, bppsa, groups, olpb
from workbench.olpb.algorithms.scans import SCANS
from workbench.olpb.costs.subtasks import Pool
from workbench.olpb.programs import modules
from workbench.olpb.programs.cluster import SERVER, cluster_of, seconds
from workbench.olpb.programs.scan import BackwardPasses, Counts, Learner, Part
from workbench.profiles import profile_model
from workbench.runtime import Crash, Fault, LinkDown, Lossy, Run
from workbench.training import RunOptions, TrainingError
from workbench.training.passes import Batches, shared_by_places
from workbench.utils.checks import (
    NOT_NEGATIVE,
    UserError,
    at_least,
    check_kind,
    check_name,
    check_truth,
    optional,
)

if TYPE_CHECKING:
    import polars as pl
    from torch import Tensor  # noqa: F401, in a string

    from workbench.clusters import Cluster
    from workbench.olpb.algorithms.tape import Tape
    from workbench.olpb.programs.learning import Evaluations
    from workbench.profiles import ModelProfile
    from workbench.runtime.progress import Progress

__all__ = ["Setup", "Trained", "TrainingError", "train"]

MODULES = 4
"""Modules of DPB, as in the original setting (Sec. VII-A)."""


@dataclass(frozen=True)
class Setup(training.WholeBatches):
    """A training on a pool of nodes.

    Attributes
    ----------
    pool
        The nodes. The server computes as fast as the fastest of them.
    evaluate_every
        Iterations from one evaluation to the next; by default one at the end of each epoch.
    levels, scan
        Of OLPB and BPPSA: levels in a group (OLPB alone), and a name in `SCANS`.
    in_batches
        Of OLPB and BPPSA: whether nodes take one group each at a time, as in the paper's figures,
        or each has a run of groups, which takes fewer steps.
    modules
        Modules of DPB.
    random_delays
        Whether a message takes ``Exp(1) * delay_s``, or `delay_s`.
    operator_flops
        FLOPs in the time that an operator takes whatever its size, forward and backward.
    jacobians
        Of OLPB and BPPSA: whether nodes send each other true products of Jacobians, in double
        precision, and the server steps from their gradients. By default nodes take the same
        seconds, and the server has the same gradients by autograd. A Jacobian has as many entries
        as the outputs of two groups multiplied, so this is for small networks: an iteration of
        LeNet-5 on 16 samples takes seconds.
    """

    pool: Pool
    batch_size: int = field(default=32, metadata=at_least(1))
    evaluate_every: int | None = field(default=None, metadata=optional(at_least(1)))
    levels: int = field(default=LEVELS, metadata=at_least(1))
    scan: str = "hillis_steele"
    in_batches: bool = False
    modules: int = field(default=MODULES, metadata=at_least(1))
    random_delays: bool = False
    operator_flops: float = field(default=0.0, metadata=NOT_NEGATIVE)
    jacobians: bool = False

    in_own_type = True

    def __post_init__(self) -> None:
        check_kind("pool", self.pool, Pool, "a Pool, such as Pool((Node(1e9),) * 4)")
        super().__post_init__()
        check_truth("in_batches", self.in_batches)
        check_truth("random_delays", self.random_delays)
        check_truth("jacobians", self.jacobians)
        check_name("scan", self.scan, SCANS)

    @property
    def samples_per_batch(self) -> int:
        """Samples of a batch, which the server takes whole."""
        return self.batch_size

    @property
    def evaluated(self) -> tuple[int, ...]:
        """Iterations after which the model is evaluated; the last is one of them."""
        last = self.epoch_ends[-1]
        if self.evaluate_every is None:
            return self.epoch_ends
        return tuple(sorted({*range(self.evaluate_every, last, self.evaluate_every), last}))

    @property
    def cluster(self) -> Cluster:
        """The pool's nodes, and the server."""
        return cluster_of(self.pool)

    def programs(self, how: str = "olpb", *, learning: bool = True) -> PoolPrograms:
        """Programs of the nodes, and what they learn with; `how` and errors as for `train`.

        Without `learning` a method that scans takes its time all the same: its `passes` say when.
        """
        if check_name("method", how, METHODS) in SCANNING:
            return _scanning(self, how, learning)
        if not learning:
            raise UserError(f"{how} scans nothing; leave learning=False to {', '.join(SCANNING)}")
        return _decoupled(self, how, self.modules if how == "dpb" else 1)

    def check_faults(self, faults: Sequence[Fault], how: str) -> None:
        """Refuse those that lose anything, but for crashes of nodes where a method scans."""
        if check_name("method", how, METHODS) not in SCANNING:
            training.check_losing_nothing(faults)
        for fault in faults:
            losing = isinstance(fault, LinkDown | Lossy)
            if losing or (isinstance(fault, Crash) and fault.node in (SERVER, -1)):
                raise UserError(
                    f"{fault} loses what others would wait for without end; a node may crash, the "
                    "server and links may not"
                )


@dataclass(frozen=True, eq=False)
class Trained(training.Trained["Tensor"]):
    """Result of a training.

    A row of `evaluations` has ``iteration, at_s, loss, train_top1, train_top5, top1, top5``.
    """

    method: str
    losses: list[float]  # mean over the batch, of each iteration before its step
    evaluations: pl.DataFrame
    passes: list[Counts]  # the scans as they ran; none where nothing is scanned


@dataclass(frozen=True, eq=False)
class PoolPrograms(training.OneModel[Trained]):
    """Programs of the nodes and the server, and what they record."""

    epochs: Evaluations
    method: str

    def check_measurable(self) -> None:
        """Refuse to be measured."""
        raise UserError(
            "a training of OLPB's is not measured: its graphs, of which gradients are found, do "
            "not travel between processes; simulate it, or measure scans alone: "
            "workbench.olpb.programs.scan.BackwardPasses"
        )

    def observe(self, at_s: float, node: int, value: Any) -> None:
        """Take the loss of an iteration, or a part of the model."""
        if isinstance(value, Part):
            self.epochs.take(value, at_s)
        else:
            self.losses.append(value)

    def trained(self, run: Run) -> Trained:
        """Result of a run that has ended."""
        epochs, server = self.epochs, len(self.programs) - 1
        passes = run.results.get(server, []) if self.method in SCANNING else []
        own = self.method, self.losses, epochs.table, passes
        return Trained(epochs.frame, epochs.weights, run, *own)


def train(
    setup: Setup,
    method: str = "olpb",
    *,
    faults: Iterable[Fault] = (),
    trace: bool = False,
    progress: Progress | bool = False,
    threads: int | None = None,
) -> Trained:
    """Train with a method.

    OLPB, BPPSA and plain back-propagation find the same gradients, so they differ in time alone:
    their weights are the same, bit for bit, or to rounding where nodes multiply Jacobians. DPB's
    gradients are late. The same arguments give the same weights, bit for bit.

    Parameters
    ----------
    method
        A name in `METHODS`.
    faults, trace, progress, threads
        As for `training.RunOptions`; the nodes are "node0", "node1", … and "server". A node may
        crash where a method scans: its subtasks are given to others. Otherwise only faults that
        lose nothing.

    Raises
    ------
    UserError
        A model that cannot be cut or recorded, subtasks that no node has the memory for, more
        modules than nodes or layers, a fault that loses messages for good, an unknown method.
    TrainingError
        The loss is not finite any more, or a program failed; the error's `trained` has what was
        evaluated.
    """
    check_kind("setup", setup, Setup, "a Setup, such as Setup('lenet5', dataset, pool)")
    return training.train(setup, method, RunOptions(faults, trace, progress, threads))


def _scanning(setup: Setup, method: str, learning: bool) -> PoolPrograms:
    from workbench.olpb.costs.traced import subtasks_of
    from workbench.olpb.programs.learning import Evaluations, ScannedModel, ServerModel

    flat, batches = setup.begin()
    evaluations = Evaluations(
        flat.replica(), setup.dataset, epoch_ends=setup.epoch_ends, objective=setup.objective
    )
    tape = _tape(setup, flat, batches)
    parts = olpb(tape.flow, setup.levels) if method == "olpb" else bppsa(tape.flow)
    about = flat, setup.sgd, setup.seed, batches, setup.evaluated, setup.objective
    learner = Learner()
    if learning and setup.jacobians:
        learner = ScannedModel(*about, tape=tape, groups=parts)
    elif learning:
        learner = ServerModel(*about)
    profile, nodes = _profile(flat, setup), setup.pool.nodes
    fastest = max(range(len(nodes)), key=lambda node: nodes[node].flops_per_s)
    forward_flops = float(setup.batch_size * profile.forward_flops)
    forwards = _tape(setup, flat, batches, unfrozen=True) if any(profile.frozen_bytes) else tape
    forward_flops += setup.operator_flops * len(forwards.calls)
    passes = BackwardPasses(
        subtasks_of(tape, parts, setup.operator_flops),
        setup.pool,
        setup.epoch_ends[-1],
        scan=setup.scan,
        in_batches=setup.in_batches,
        random_delays=setup.random_delays,
        learner=learner,
        forward_s=seconds(setup.pool, fastest, forward_flops, len(profile)),
    )
    ends, programs = setup.epoch_ends, passes.programs
    return PoolPrograms(setup, setup.cluster, programs, evaluations, ends, method)


def _decoupled(setup: Setup, method: str, count: int) -> PoolPrograms:
    from workbench.olpb.programs.learning import Evaluations, ModuleModel

    flat, batches = setup.begin()
    pieces, ends = setup.pieces(flat), setup.epoch_ends
    profile = _profile(flat, setup)
    table = profile.table
    set_up = np.array(_set_up_flops(setup, _tape(setup, flat, batches, unfrozen=True), len(table)))
    frozen = next(layer for layer, size in enumerate(table["param_bytes"]) if size)
    forward = setup.batch_size * table["forward_flops"].to_numpy() + set_up
    set_up[:frozen] = 0.0
    backward = setup.batch_size * table["backward_flops"].to_numpy() + set_up
    spans = cut((forward + backward).tolist(), count)
    places = [place for place, span in enumerate(spans) for _ in span]
    if shared := shared_by_places(pieces, places):
        weight, _, other, place = shared
        raise UserError(
            f"{weight!r} is used in module {other} and in module {place}; cut the network into "
            "fewer modules, or train it with another method"
        )
    crossing = [*pieces.crossing_bytes, 0]
    work, learners = [], []
    for place, span in enumerate(spans):
        kept = count - place
        own = slice(span.start, span.stop)
        parameters, outputs = (
            int(table[name][own].sum()) for name in ("param_bytes", "output_bytes")
        )
        held = (2 + kept) * parameters + sum(profile.frozen_bytes[own])
        work.append(
            modules.ModuleWork(
                forward_flops=sum(forward[own].tolist()),
                backward_flops=sum(backward[own].tolist()),
                boundary_bytes=float(setup.batch_size * crossing[span.stop - 1]),
                memory_bytes=held + kept * setup.batch_size * outputs,
                dispatches=len(span),
                backward_dispatches=max(0, span.stop - max(span.start, frozen)),
            )
        )
        learners.append(
            ModuleModel(
                place=place,
                pieces=pieces,
                span=(span.start + 1, span.stop),
                flat=flat.replica(),
                copies=[flat.replica() for _ in range(kept)],
                sgd=setup.sgd,
                seed=setup.seed,
                batches=batches,
                evaluated=setup.evaluated,
                objective=setup.objective,
            )
        )
    delays = setup.random_delays
    running = modules.programs_of(work, setup.pool, ends[-1], learners, random_delays=delays)
    programs = [running.get(node, _nothing) for node in range(len(setup.pool.nodes) + 1)]
    evaluations = Evaluations(
        flat, setup.dataset, epoch_ends=ends, parts=count, objective=setup.objective
    )
    return PoolPrograms(setup, setup.cluster, programs, evaluations, ends, method)


async def _nothing(context: Any) -> None:
    """Program of a node that has no module."""


def _tape(
    setup: Setup, flat: training.FlatModel, batches: Batches, *, unfrozen: bool = False
) -> Tape:
    """Trace of the first batch; with `unfrozen`, as if no parameter were frozen."""
    from workbench.olpb.programs.learning import traced_batch
    from workbench.profiles.copies import unfreeze

    module = flat.module
    if unfrozen:
        unfreeze(module := copy.deepcopy(module))
    with training.seeded(setup.seed):
        return traced_batch(module, batches, 0, setup.objective)


def _set_up_flops(setup: Setup, tape: Tape, layers: int) -> list[float]:
    """FLOPs for each layer's operators; where the pass shows other layers, the same for all."""
    counts = [float(len(group.operators)) for group in groups(tape.flow, "matrix_layer")]
    if len(counts) != layers:
        counts = [len(tape.calls) / layers] * layers
    return [setup.operator_flops * count for count in counts]


def _profile(flat: training.FlatModel, setup: Setup) -> ModelProfile:
    return profile_model(flat.module, setup.inputs(flat.module))
