"""Training of the same model by all methods, for the same virtual time."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from workbench.clusters import Cluster
from workbench.comparison.learning import sgd, systems
from workbench.comparison.learning.ranking import (
    EVALUATIONS,
    TrainedMethods,
    default_target,
    named,
    summary,
)
from workbench.comparison.learning.sgd import Batches, Clock
from workbench.comparison.learning.task import Task
from workbench.comparison.learning.trial import Trial
from workbench.comparison.methods import METHODS, Method, Plan
from workbench.comparison.methods import plans as plans_of
from workbench.comparison.problem import MOST_S, Problem
from workbench.datasets.dataset import check_dataset
from workbench.profiles import LayerTimes, profile_model
from workbench.reproduction.sweep import ExperimentInterrupted, sweep
from workbench.training import DivergedError, TrainingError
from workbench.training.models import check_model, make_model
from workbench.training.objective import objective_of
from workbench.utils.checks import (
    UserError,
    check_name,
    check_number,
    check_whole,
    choose,
    listed,
)
from workbench.zoo import MODELS

if TYPE_CHECKING:
    import torch

    from workbench.datasets import Dataset

LEARNING_RATES = (0.1,)
"""Default learning rates of a step on the batch of one worker."""

MOST_WORK = 5
"""Limit on a method's epochs, however fast it is, as a multiple of those asked for."""

HEADROOM = 1.1
"""Epochs of a system's training over those predicted for its time; later ones are left out."""

LEARNT = {**EVALUATIONS, "iteration": pl.Int64, "reason": pl.String}


def train_methods(
    model: str | torch.nn.Module,
    cluster: Cluster,
    dataset: Dataset,
    batch_size: int = 32,
    *,
    epochs: int = 10,
    seconds: float | None = None,
    seeds: int = 3,
    seed: int = 0,
    learning_rates: Sequence[float] = LEARNING_RATES,
    until_loss: float | None = None,
    alpha: float | None = None,
    objective: Any = None,
    outputs: Callable[[Any], Any] | None = None,
    methods: Sequence[str] | None = None,
    times: Mapping[str, LayerTimes] | None = None,
    accumulate: int = 1,
    processes: int | None = None,
) -> TrainedMethods:
    """Train a model with every method that a cluster allows: true learning, virtual time.

    For a seed all methods begin with the same weights and learn from the same samples. These are
    split among the data owners by the ``samples`` that they hold in the cluster. An epoch is one of
    this data set. All methods run for the same virtual seconds, whatever number of epochs that is.

    Methods whose updates equal SGD's share a training by plain SGD if they have the same batches,
    with the times and bytes of each method's own simulated iterations. All others run their
    system's training on the cluster. Steps have no momentum, since DLion's exchange of gradients
    allows none. A step on the gradients of several workers has a learning rate that grows with the
    square root of their number (Krizhevsky 2014, Sec. 3.2), and so does one on accumulated
    batches.

    EdgeGossip chooses samples by the losses of aggregated samples; or by their own losses, if
    samples have no means, as tokens.

    Where every node has a model, each is evaluated by itself and the mean is taken, as in the
    systems' papers. Evaluations take no virtual time.

    Parameters
    ----------
    model
        A name of the zoo, or a module, which starts from its own weights.
    cluster, batch_size, times, accumulate
        As for `compare`.
    dataset
        Data set; images are fitted to the input of a model of the zoo.
    epochs
        Passes of the slowest method over as many samples as the data set has.
    seconds
        Virtual seconds of each training; by default those that the slowest method takes for its
        epochs. A method that would learn for over `MOST_WORK` times as many epochs is
        ``cut_short``.
    seeds, seed
        Number of trainings of each method, and the first seed.
    learning_rates
        Learning rates of a step on the batch of one worker. Every method is trained with each, and
        counts with its best.
    until_loss
        Test loss by which methods are ranked. The default lies at 90 % of the way from the first
        loss to the least of the best method equal to SGD on all samples, both as means over seeds.
    alpha
        Parameter of a Dirichlet distribution by which each class is split among nodes: the smaller,
        the fewer classes a node holds. The ``samples`` of the cluster are then ignored.
    objective, outputs
        As for `workbench.training.Setup`.
    methods
        Names in `METHODS`; all by default.
    processes
        Number of processes; by default one for each core. A module is trained in this process.

    Returns
    -------
    TrainedMethods
        The same, bit for bit, for the same arguments. After Ctrl-C it has the trainings that were
        finished.

    Raises
    ------
    UserError
        As for `compare`; images that the model does not take; an unknown method.
    """
    count, first = check_whole("seeds", seeds, 1), check_whole("seed", seed, 0)
    if until_loss is not None and not check_number("until_loss", until_loss) > 0:
        raise UserError(f"until_loss is {until_loss}; a loss is above 0")
    names = list(METHODS) if methods is None else method_names(methods)
    if seconds is not None and not 1 / MOST_S <= check_number("seconds", seconds) <= MOST_S:
        raise UserError(
            f"seconds is {seconds:g}; give virtual seconds from {1 / MOST_S:g} to {MOST_S:g}"
        )
    rates = listed("learning_rates", learning_rates, "give numbers, such as (0.05, 0.1)")
    how: dict[str, Any] = {"epochs": epochs, "objective": objective, "outputs": outputs}
    how |= {"rates": rates, "alpha": alpha, "accumulate": accumulate}
    tasks = tasks_of(model, cluster, dataset, batch_size, times, **how)
    problem, objective = tasks[0].problem, tasks[0].objective
    plans = {name: plan_of(METHODS[name], problem) for name in names}
    lasting = Lasting.of(tasks[0], plans, seconds)
    learnt, interrupted = _learnt(tasks, plans, lasting, range(first, first + count), processes)
    evaluations, rows = _by_method(tasks, plans, lasting, learnt, count)
    target = default_target(evaluations, rows) if until_loss is None else until_loss
    ranked = named(summary(evaluations, rows, target), objective)
    return TrainedMethods(
        named(evaluations, objective), ranked, target, interrupted, objective, lasting.run_s
    )


def method_names(methods: Sequence[str]) -> list[str]:
    """Return the names of methods, checked."""
    names = listed("methods", methods, 'give names, such as ["fedavg", "gossip"]')
    if not names:
        raise UserError("there are no methods; give at least one")
    return [check_name("method", name, METHODS) for name in names]


def tasks_of(
    model: str | torch.nn.Module,
    cluster: Cluster,
    dataset: Dataset,
    batch_size: int,
    times: Mapping[str, LayerTimes] | None,
    *,
    rates: Sequence[float],
    accumulate: int = 1,
    **options: Any,
) -> list[Task]:
    """The task of all methods, for each learning rate.

    The profile is that of the model as it is trained, which may have other outputs than the zoo's.
    """
    check_dataset(dataset)
    shape = choose("model", model, MODELS).input_shape if isinstance(model, str) else ()
    if len(shape) == 3:
        dataset = dataset.fitted(shape)
    if not rates:
        raise UserError("there are no learning_rates; give at least one")
    outputs = options.get("outputs")
    check_model(model, dataset, 0, objective_of(options.get("objective"), dataset), outputs)
    profile = profile_model(make_model(model, dataset, 0, outputs), dataset.inputs)
    problem = Problem(profile, cluster, batch_size, times, accumulate=accumulate)
    return [
        Task(problem, model, dataset, learning_rate=rate, **options)
        for rate in dict.fromkeys(rates)
    ]


def plan_of(method: Method, problem: Problem) -> Plan | str:
    """The method's fastest plan, or why it cannot be trained."""
    (_, plan), *_ = plans_of(problem, [method])
    if method.update not in sgd.UPDATES and method.name not in systems.TRAININGS:
        return "compared by its speed alone: its training is not implemented"
    return plan


def _batches(plans: Mapping[str, Plan | str], problem: Problem) -> dict[str, Batches]:
    return {
        name: Batches.of(METHODS[name], plan, problem)
        for name, plan in plans.items()
        if METHODS[name].update in sgd.UPDATES and not isinstance(plan, str)
    }


@dataclass(frozen=True)
class Lasting:
    """How long trainings last.

    Attributes
    ----------
    run_s
        Virtual seconds of each training.
    epochs_s
        Method -> seconds of the task's epochs.
    clocks
        Method -> its clock, if it shares a training by plain SGD.
    """

    run_s: float
    epochs_s: Mapping[str, float]
    clocks: Mapping[str, Clock]

    @classmethod
    def of(cls, task: Task, plans: Mapping[str, Plan | str], seconds: float | None) -> Lasting:
        """Time each method's epochs; by default trainings last for the longest of these times."""
        epochs_s, clocks = dict[str, float](), dict[str, Clock]()
        for name, plan in plans.items():
            if isinstance(plan, str):
                continue
            epochs_s[name] = task.epochs * task.samples / plan.cost.samples_per_s
            if METHODS[name].update in sgd.UPDATES:
                clock = clocks[name] = Clock.of(task.problem, plan)
                epochs_s[name] = clock.seconds(sgd.iterations(task, plan.cost.samples))
        return cls(seconds or max(epochs_s.values(), default=0.0), epochs_s, clocks)


class Unit(NamedTuple):
    """One training to run: plain SGD up to some iterations, or a system for some seconds."""

    batches: Batches | None
    ends: Collection[int] = ()
    run_s: float = 0.0
    epochs: int = 0  # that a system is predicted to need


def _units(
    task: Task, plans: Mapping[str, Plan | str], lasting: Lasting
) -> Iterator[tuple[str, Unit]]:
    """Trainings by name: those of SGD by their batches, the others by the method."""
    batches = _batches(plans, task.problem)
    for shared in dict.fromkeys(batches.values()):
        clocks = [lasting.clocks[name] for name, own in batches.items() if own == shared]
        most = sgd.iterations(task, shared.samples, MOST_WORK)
        ends = {min(most, clock.iterations(lasting.run_s)) for clock in clocks}
        yield str(shared), Unit(shared, ends)
    for name, epochs_s in lasting.epochs_s.items():
        if name not in batches:
            epochs = math.ceil(HEADROOM * task.epochs * lasting.run_s / epochs_s)
            yield name, Unit(None, run_s=lasting.run_s, epochs=epochs)


def _learnt(
    tasks: Sequence[Task],
    plans: Mapping[str, Plan | str],
    lasting: Lasting,
    seeds: range,
    processes: int | None,
) -> tuple[pl.DataFrame, bool]:
    """Run all trainings; return their evaluations, and whether Ctrl-C ended them."""
    points = [
        {"method": name, "learning_rate": task.learning_rate, "seed": seed}
        | {"task": task, "unit": unit}
        for seed in seeds
        for task in tasks
        for name, unit in _units(task, plans, lasting)
    ]
    processes = processes if isinstance(tasks[0].model, str) else 1
    labels = ("learning_rate",)
    try:
        frame = sweep(learn, points, LEARNT, title="training", labels=labels, processes=processes)
        return frame, False
    except ExperimentInterrupted as stopped:
        return stopped.frame, True


def _by_method(
    tasks: Sequence[Task],
    plans: Mapping[str, Plan | str],
    lasting: Lasting,
    learnt: pl.DataFrame,
    seeds: int,
) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    """Evaluations of all methods; and a row for each method and learning rate, or with a reason."""
    problem = tasks[0].problem
    batches, parts = _batches(plans, problem), list[pl.DataFrame]()
    rows = list[dict[str, Any]]()
    for name, plan in plans.items():
        method = METHODS[name]
        row: dict[str, Any] = {"method": name, "system": method.system, "update": method.update}
        if isinstance(plan, str):
            rows.append(row | {"reason": plan})
            continue
        row["samples_share"] = problem.share(plan.learns_from)
        clock = lasting.clocks.get(name)
        for task in tasks:
            own = learnt.filter(
                method=str(batches.get(name, name)), learning_rate=task.learning_rate
            )
            failed, reason = own["reason"].drop_nulls(), None
            if len(failed):
                reason = failed[0]
            elif own["seed"].n_unique() < seeds:
                reason = "interrupted before it was trained"
            rows.append(row | {"learning_rate": task.learning_rate, "reason": reason})
            if reason is None:
                own = own.with_columns(method=pl.lit(name))
                if clock is not None:
                    last = sgd.iterations(task, batches[name].samples, MOST_WORK)
                    own = own.with_columns(**clock.columns()).filter(pl.col("iteration") <= last)
                    rows[-1]["cut_short"] = clock.iterations(lasting.run_s) > last
                else:
                    rows[-1]["cut_short"] = max(own["at_s"]) < lasting.run_s
                own = own.filter(pl.col("at_s") <= lasting.run_s * (1 + 1e-9))
                parts.append(
                    own.select(pl.col(column).cast(kind) for column, kind in EVALUATIONS.items())
                )
    return pl.concat([pl.DataFrame(schema=EVALUATIONS), *parts]), rows


def learn(task: Task, method: str, unit: Unit, seed: int) -> Any:
    """Run one training; return its evaluations, or a row with the reason why it failed."""
    try:
        if unit.batches is not None:
            return sgd.learn(task, unit.batches, seed, unit.ends)
        chosen, epochs, most = METHODS[method], unit.epochs, MOST_WORK * task.epochs
        plan = chosen.plan(task.problem)
        while True:
            epochs = min(epochs, most)
            curve = systems.train(Trial(replace(task, epochs=epochs), chosen, plan, seed))
            end_s = curve["at_s"][-1]
            if end_s >= unit.run_s or epochs == most:
                return curve
            # It is faster than predicted.
            epochs = max(epochs + 1, math.ceil(HEADROOM * epochs * unit.run_s / end_s))
    except TrainingError as error:
        return {"reason": error.reason}
    except (DivergedError, UserError) as error:
        return {"reason": str(error)}
