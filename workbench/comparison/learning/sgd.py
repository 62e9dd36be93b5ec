"""Training by methods whose updates equal SGD's: one plain loop, and a clock for each method.

A parameter server, an all-reduce, or device, edge and cloud have the weights of one machine that
takes the same batches. So these are trained once, and each method adds the seconds and the bytes of
its simulated iterations.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench import training
from workbench.comparison.cost import Cost, carried
from workbench.comparison.learning.task import PER_EPOCH, Task
from workbench.comparison.methods.method import BY_SPEED, EQUAL
from workbench.runtime import simulate
from workbench.training.batches import Draw
from workbench.training.models import inputs_in_type, make_model
from workbench.training.objective import CLASSES
from workbench.training.passes import check_finite
from workbench.training.repeatable import STEP, derive

if TYPE_CHECKING:
    from workbench.comparison.methods import Method, Plan
    from workbench.comparison.problem import Problem
    from workbench.datasets import Dataset
    from workbench.training import Objective, Sgd

UPDATES = (EQUAL, BY_SPEED)
"""Updates that plain SGD makes from the same batches."""

ITERATIONS = {
    "iteration": pl.Int64,
    "samples": pl.Int64,
    "loss": pl.Float64,
    "metric": pl.Float64,
}


@dataclass(frozen=True)
class Batches:
    """Batches of an iteration of SGD, by data owner.

    Attributes
    ----------
    owners
        Places among the data owners.
    sizes
        Samples from each data owner; or one number, if batches are drawn from the samples of all
        these data owners together, as where samples are sent to one node.
    accumulates
        Batches of a step, whose gradients are added up.
    """

    owners: tuple[int, ...]
    sizes: tuple[int, ...]
    accumulates: int = 1

    @classmethod
    def of(cls, method: Method, plan: Plan, problem: Problem) -> Batches:
        """The batches of a method."""
        nodes = [node for node in problem.owners if node in plan.learns_from]
        places = tuple(map(problem.owners.index, nodes))
        if method.moves_samples or len(nodes) == 1:
            batches = cls(places, (problem.batch_size,), plan.accumulates)
        else:
            sizes = tuple(plan.batches[node] for node in nodes)
            batches = cls(places, sizes, plan.accumulates)
        assert math.isclose(batches.samples, plan.cost.samples, rel_tol=1e-6), method.name
        return batches

    def __str__(self) -> str:
        owners, sizes = (", ".join(map(str, numbers)) for numbers in (self.owners, self.sizes))
        accumulated = f", {self.accumulates} a step" if self.accumulates > 1 else ""
        return f"SGD in batches of {sizes} from {owners}{accumulated}"

    @property
    def samples(self) -> int:
        """Samples of an iteration."""
        return self.accumulates * sum(self.sizes)

    def draw(self, shards: tuple[NDArray[np.int64], ...], seed: int) -> Iterator[NDArray[np.int64]]:
        """Draw batches without end; each pass over the samples is in a new order."""
        own = [shards[place] for place in self.owners]
        if len(self.sizes) < len(own):
            own = [np.concatenate(own)]
        draws = [Draw(shard, seed, place) for shard, place in zip(own, self.owners, strict=False)]
        while True:
            taken = zip(draws, self.sizes, strict=True)
            yield np.concatenate([draw.take(size) for draw, size in taken])


def iterations(task: Task, samples: float, times: int = 1) -> int:
    """Iterations of this many samples in the task's epochs, or in `times` as many epochs."""
    return math.ceil(times * task.epochs * task.samples / samples)


def learn(
    task: Task, batches: Batches, seed: int, ends: Collection[int] | None = None
) -> pl.DataFrame:
    """Train for the task's epochs; return a row of `ITERATIONS` for each evaluation.

    With `ends`, train up to the last of these iterations, with an evaluation at each of them.

    Raises DivergedError: the loss is no longer finite.
    """
    ends = ends or (iterations(task, batches.samples),)
    last = max(ends)
    drawn = zip(*[batches.draw(task.shards(seed), seed)] * batches.accumulates, strict=True)
    every = max(1, round(task.samples / batches.samples / PER_EPOCH))
    sgd = task.sgd(batches.samples / task.problem.batch_size)
    data = task.dataset
    rows = []
    with training.fixed_threads():
        module = make_model(task.model, data, seed, task.outputs)
        flat = training.flatten(module, inputs_in_type(module, data))
        objective = task.objective

        def evaluate(iteration: int) -> None:
            test = training.evaluate(flat.module, data.x_test, data.y_test, objective=objective)
            loss = check_finite(test.loss, f"on the test samples after iteration {iteration}")
            metric = test.metrics.get(objective.shown or "")
            rows.append((iteration, iteration * batches.samples, loss, metric))

        evaluate(0)
        taken = steps(flat, data, islice(drawn, last), sgd, seed, objective=objective)
        for iteration, _ in enumerate(taken, start=1):
            if iteration % every == 0 or iteration in ends:
                evaluate(iteration)
    return pl.DataFrame(rows, schema=ITERATIONS, orient="row")


def steps(
    flat: training.FlatModel,
    dataset: Dataset,
    batches: Iterator[Sequence[NDArray[np.int64]]],
    sgd: Sgd,
    seed: int,
    *,
    objective: Objective = CLASSES,
) -> Iterator[float]:
    """Take a step for each group of batches of indices; yield the mean loss before it.

    Raises DivergedError: a loss is not finite.
    """
    velocity = sgd.start(flat.parameters)
    seeds = (derive(seed, STEP, number) for number in count())
    for number, group in enumerate(batches):
        pairs = [(dataset.x_train[batch], dataset.y_train[batch]) for batch in group]
        drawn = list(islice(seeds, len(pairs)))
        loss = training.accumulate(flat, pairs, objective=objective, seeds=drawn)
        check_finite(loss, f"in iteration {number + 1}")
        sgd.step(flat.parameters, flat.gradients, velocity)
        yield loss


@dataclass(frozen=True)
class Clock:
    """When iterations of a method end, and what they send.

    Attributes
    ----------
    start_s
        Seconds before the first iteration.
    iteration_s, iteration_bytes
        Seconds and bytes of an iteration; bytes count on each link that they pass.
    early
        Number of iterations at the beginning that take `early_s` and `early_bytes` instead.
    """

    start_s: float
    iteration_s: float
    iteration_bytes: float
    early: float = 0.0
    early_s: float = 0.0
    early_bytes: float = 0.0

    @classmethod
    def of(cls, problem: Problem, plan: Plan) -> Clock:
        """The clock of a plan, from its dry runs."""
        first, *later = plan.costs or [plan.cost]
        if later:
            (second,) = later  # the samples are stored by then, and nothing is sent
            early = sum(problem.samples.values()) / plan.cost.samples
            size = _bytes(problem, first)
            return cls(0.0, second.iteration_s, 0.0, early, first.iteration_s, size)
        start_s = 0.0
        if plan.phases:
            phase = plan.phases[0]
            first_s = simulate(phase.cluster, phase.programs(phase.first)).end_s
            start_s = max(0.0, first_s - phase.first * first.iteration_s)
        return cls(start_s, first.iteration_s, _bytes(problem, first))

    def seconds(self, iterations: float) -> float:
        """Seconds until this many iterations have ended."""
        early = min(iterations, self.early)
        return self.start_s + early * self.early_s + (iterations - early) * self.iteration_s

    def iterations(self, seconds: float) -> int:
        """Whole iterations that have ended after this many seconds."""
        left_s = max(0.0, seconds - self.start_s)
        early = min(left_s / self.early_s, self.early) if self.early else 0.0
        return math.floor(early + (left_s - early * self.early_s) / self.iteration_s + 1e-9)

    def columns(self) -> dict[str, pl.Expr]:
        """Columns of times and bytes, computed from the column ``iteration``."""
        iteration = pl.col("iteration")
        began = pl.when(iteration > 0).then(self.start_s).otherwise(0.0)
        early = pl.min_horizontal(iteration, pl.lit(self.early))
        later = iteration - early
        return {
            "at_s": began + early * self.early_s + later * self.iteration_s,
            "bytes": early * self.early_bytes + later * self.iteration_bytes,
        }


def _bytes(problem: Problem, cost: Cost) -> float:
    return sum(size for size, _ in carried(problem, cost).values())
