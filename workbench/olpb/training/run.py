"""Trains a model on a pool of nodes: true learning, virtual time."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench import training
from workbench.checks import check_kind
from workbench.errors import UserError
from workbench.graphs.recording import unfreeze
from workbench.names import check_name
from workbench.olpb.algorithms.decoupled import cut
from workbench.olpb.algorithms.levels import groups
from workbench.olpb.algorithms.methods import METHODS
from workbench.olpb.algorithms.tape_recorder import record
from workbench.olpb.programs import modules, server
from workbench.olpb.programs.cluster import SERVER, seconds
from workbench.olpb.programs.jacobians import AsArithmeticCosts, subtasks_of
from workbench.olpb.programs.work import AsPaperCounts, Counts, Idle
from workbench.olpb.training.evaluations import Evaluations
from workbench.olpb.training.learning import (
    AutogradLearner,
    Batches,
    ModuleModel,
    ServerModel,
    scan_learner,
)
from workbench.olpb.training.setup import Setup
from workbench.profiles import profile_model
from workbench.runtime import Crash, Fault, LinkDown, Lossy, Run
from workbench.runtime.faults import check_faults
from workbench.training import Standing
from workbench.training.losses import cross_entropy
from workbench.training.tensors import number_type

if TYPE_CHECKING:
    import polars as pl
    import torch
    from torch import Tensor  # noqa: F401, in a string

    from workbench.olpb.algorithms.tape import Tape
    from workbench.olpb.programs.work import Counting, Learner
    from workbench.profiles import ModelProfile
    from workbench.runtime.progress import Progress

SCANNING = {"olpb": "operator", "bppsa": "layer"}
"""Methods that scan, with their units."""


@dataclass(frozen=True, eq=False)
class Trained(training.Trained["Tensor"]):
    """Result of a training.

    Attributes
    ----------
    method
        What it was trained with.
    losses
        Mean over the batch, of each iteration before its step.
    evaluations
        A row each: ``iteration, at_s, loss, train_top1, train_top5, top1, top5``.
    passes
        The scans as they ran; none where nothing is scanned.
    """

    method: str
    losses: list[float]
    evaluations: pl.DataFrame
    passes: list[Counts]


@dataclass(frozen=True, eq=False)
class Built(training.Built[Trained]):
    """A training before it starts; `losses` grows as it runs."""

    setup: Setup
    method: str
    evaluations: Evaluations
    losses: list[float]

    def standing(self) -> Standing:
        """By the iterations whose loss is known."""
        ends = self.setup.epoch_ends
        loss = self.losses[-1] if self.losses else None
        return Standing.of(self.evaluations, len(ends), len(self.losses), ends[-1], loss)

    def trained(self, run: Run) -> Trained:
        """What has been evaluated."""
        shown = self.evaluations
        passes = run.results.get(len(self.setup.pool.nodes), []) if self.method in SCANNING else []
        return Trained(
            shown.frame, shown.weights, run, self.method, self.losses, shown.table, passes
        )


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
    with ``gradients="autograd"`` their weights are the same, bit for bit; with ``"scan"``, but for
    rounding. DPB's gradients are late. The same arguments give the same weights, bit for bit.

    Parameters
    ----------
    setup
        What to train, on what.
    method
        A name in `METHODS`.
    faults, trace
        As for `workbench.runtime.simulate`; the nodes are "node0", "node1", … and "server". A node
        may crash where a method scans: its subtasks are given to others. Otherwise only faults that
        lose nothing.
    progress, threads
        As for `simulate`; True shows evaluations, virtual time and loss.

    Returns
    -------
    Trained
        Epochs: ``epoch, at_s, loss, train_top1, train_top5, top1, top5``, and `evaluations`.

    Raises
    ------
    UnknownNameError
        No such method or model.
    ValueError
        A model that cannot be cut or recorded, subtasks that no node has the memory for, more
        modules than nodes or layers, a fault that loses messages for good.
    TrainingError
        The loss is not finite any more, or a program failed; the error's `trained` has what was
        evaluated.
    """
    check_name("method", method, METHODS)
    faults = _checked(faults, method)
    with training.fixed_threads():
        built = build(setup, method)
    return training.run(built, faults=faults, trace=trace, progress=progress, threads=threads)


def build(setup: Setup, method: str = "olpb", *, learning: bool = True) -> Built:
    """Make the programs of a run and what they learn with; arguments and errors as for `train`.

    Without `learning` a method that scans takes its time all the same: its `passes` say when.
    """
    check_kind("setup", setup, Setup, "a Setup, such as Setup('lenet5', dataset, pool)")
    check_name("method", method, METHODS)
    if method in SCANNING:
        return _scanning(setup, method, learning)
    if not learning:
        raise UserError(f"{method} scans nothing; leave learning=False to {', '.join(SCANNING)}")
    return _decoupled(setup, method, setup.modules if method == "dpb" else 1)


def _scanning(setup: Setup, method: str, learning: bool) -> Built:
    flat, batches = _model(setup)
    evaluations = Evaluations(flat, setup.dataset, setup.evaluated, epoch_ends=setup.epoch_ends)
    model = ServerModel(flat, setup.sgd, setup.seed, batches, evaluations)
    unit, level = SCANNING[method], setup.level if method == "olpb" else 1
    tape = _tape(setup, flat, batches)
    subtasks = subtasks_of(tape, groups(tape.flow, unit, level), setup.operator_flops)
    elements = len(subtasks)
    learner: Learner = AutogradLearner(elements, model) if learning else Idle(elements)
    if setup.gradients == "scan" and learning:
        learner = scan_learner(model, unit, level)
    profile, nodes = _profile(flat, setup), setup.pool.nodes
    fastest = max(range(len(nodes)), key=lambda node: nodes[node].flops_per_s)
    forward_flops = float(setup.batch_size * profile.forward_flops)
    forwards = _tape(setup, flat, batches, unfrozen=True) if any(profile.frozen_bytes) else tape
    forward_flops += setup.operator_flops * len(forwards.calls)
    counting: Counting = AsPaperCounts(subtasks, setup.moves)
    if setup.counting == "arithmetic":
        counting = AsArithmeticCosts(subtasks)
    programs = server.programs_of(
        subtasks,
        setup.pool,
        setup.epoch_ends[-1],
        scan=setup.scan,
        random_delays=setup.random_delays,
        counting=counting,
        learner=learner,
        forward_s=seconds(setup.pool, fastest, forward_flops, len(profile)),
    )
    return Built(setup, setup.cluster, programs, method, evaluations, model.losses)


def _decoupled(setup: Setup, method: str, count: int) -> Built:
    flat, batches = _model(setup)
    pieces = training.cut(flat.module, setup.dataset.input_shape, input_dtype=_dtype(flat.module))
    profile = _profile(flat, setup)
    table = profile.table
    set_up = _set_up_flops(setup, _tape(setup, flat, batches, unfrozen=True), len(table))
    frozen = next(layer for layer, size in enumerate(table["param_bytes"]) if size)
    forward, backward = (
        [setup.batch_size * flops + more for flops, more in zip(table[name], extra, strict=True)]
        for name, extra in (
            ("forward_flops", set_up),
            ("backward_flops", [0.0] * frozen + set_up[frozen:]),
        )
    )
    spans = cut(list(map(sum, zip(forward, backward, strict=True))), count)
    crossing = [*pieces.crossing_bytes, 0]
    work, learners = [], []
    evaluations = Evaluations(
        flat, setup.dataset, setup.evaluated, epoch_ends=setup.epoch_ends, parts=count
    )
    losses: list[float] = []
    for place, span in enumerate(spans):
        kept = count - place
        own = slice(span.start, span.stop)
        parameters = sum(table["param_bytes"][own].to_list())
        held = (2 + kept) * parameters + sum(profile.frozen_bytes[own])
        outputs = sum(table["output_bytes"][own].to_list())
        work.append(
            modules.ModuleWork(
                float(sum(forward[own])),
                float(sum(backward[own])),
                float(setup.batch_size * crossing[span.stop - 1]),
                held + kept * setup.batch_size * outputs,
                len(span),
                max(0, span.stop - max(span.start, frozen)),
            )
        )
        learners.append(
            ModuleModel(
                place,
                pieces,
                (span.start + 1, span.stop),
                flat.replica(),
                [flat.replica() for _ in range(kept)],
                setup.sgd,
                setup.seed,
                batches,
                evaluations,
                losses,
            )
        )
    _check_ties(pieces, spans)
    running = modules.programs_of(
        work,
        setup.pool,
        setup.epoch_ends[-1],
        random_delays=setup.random_delays,
        learners=learners,
    )
    programs = [running.get(node, _nothing) for node in range(len(setup.pool.nodes) + 1)]
    return Built(setup, setup.cluster, programs, method, evaluations, losses)


async def _nothing(context: Any) -> None:
    """Program of a node that has no module."""


def _model(setup: Setup) -> tuple[training.FlatModel, Batches]:
    module = setup.made()
    flat = training.flatten(module, setup.dataset.input_shape, input_dtype=_dtype(module))
    return flat, Batches(setup.dataset, setup.batches, flat.parameters)


def _tape(
    setup: Setup, flat: training.FlatModel, batches: Batches, *, unfrozen: bool = False
) -> Tape:
    """What a gradient passes through; with `unfrozen`, as if no parameter were frozen."""
    module = flat.module
    if unfrozen:
        unfreeze(module := copy.deepcopy(module))
    with training.seeded(setup.seed):
        return record(module, *batches[0], loss=cross_entropy)


def _set_up_flops(setup: Setup, tape: Tape, layers: int) -> list[float]:
    """Of each layer's operators; where the pass shows other layers, the same for all."""
    counts = [float(len(one.operators)) for one in groups(tape.flow, "layer", 1)]
    if len(counts) != layers:
        counts = [len(tape.calls) / layers] * layers
    return [setup.operator_flops * count for count in counts]


def _dtype(module: torch.nn.Module) -> str:
    return str(number_type(module)).removeprefix("torch.")


def _profile(flat: training.FlatModel, setup: Setup) -> ModelProfile:
    return profile_model(flat.module, setup.dataset.input_shape, input_dtype=_dtype(flat.module))


def _check_ties(pieces: training.Pieces, spans: Iterable[range]) -> None:
    """Refuse modules that would each learn the same weight apart."""
    places: dict[str, int] = {}
    for place, span in enumerate(spans):
        for weight in sorted(frozenset[str]().union(*pieces.parameters[span.start : span.stop])):
            if places.setdefault(weight, place) != place:
                raise UserError(
                    f"{weight!r} is used in module {places[weight]} and in module {place}; cut "
                    "the network into fewer modules, or train it with another method"
                )


def _checked(faults: Iterable[Fault], method: str) -> tuple[Fault, ...]:
    if method not in SCANNING:
        return training.check_losing_nothing(faults)
    found = check_faults(faults)
    for fault in found:
        losing = isinstance(fault, LinkDown | Lossy)
        if losing or (isinstance(fault, Crash) and fault.node in (SERVER, -1)):
            raise UserError(
                f"{fault} loses what others would wait for without end; a node may crash, the "
                "server and links may not"
            )
    return found
