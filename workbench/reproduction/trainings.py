"""Trainings behind a paper's figures: each case with several seeds, and answers by their rows.

A *case* is a NamedTuple of plain values with a ``seed``: all that decides one training. A system's
``paper/`` says what a case trains and what its rows say. This module trains cases in parallel, each
once in a process, and takes from their rows what every paper needs: means over seeds with their
errors, seconds until an accuracy, and answers that say which seeds they leave out.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from itertools import pairwise
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import polars as pl

from workbench.reproduction.claims import Answer
from workbench.reproduction.points import Rows
from workbench.reproduction.scales import Scaled, processes_at
from workbench.reproduction.sweep import Measure, Point, sweep
from workbench.training import TrainingError
from workbench.utils.numbers import counted

SEEDS = Scaled(smoke=1, default=1, paper=3)
"""Trainings of each case, usually."""

TRAINED: dict[str, Rows] = {}
"""Rows of trainings of this process, which several figures share, by their calls."""


class Seeded(Protocol):
    """A case: a NamedTuple with a field ``seed``."""

    def _replace(self, *, seed: int) -> Self: ...


AnyCase = TypeVar("AnyCase", bound=Seeded)


def with_seeds(cases: Iterable[AnyCase], seeds: Iterable[int]) -> list[AnyCase]:
    """Return each distinct case with each seed, all cases of one seed together."""
    distinct = list(dict.fromkeys(cases))
    return [case._replace(seed=seed) for seed in seeds for case in distinct]


def train_all(
    title: str,
    train: Measure,
    points: Sequence[Point],
    schema: Mapping[str, Any],
    *,
    scale: str,
    labels: Sequence[str],
    shared: Point | None = None,
    processes: int | None = None,
    folder: Path | None = None,
    then: Callable[[pl.DataFrame], pl.DataFrame] = lambda frame: frame,
) -> pl.DataFrame:
    """Train at every point; a training that fails is a row with its ``reason``.

    Parameters are those of `workbench.reproduction.sweep.sweep`. Trainings run in one process at
    scale ``smoke``; without a folder, none runs twice in this process.
    """
    return sweep(
        train,
        points,
        schema,
        title=title,
        shared=shared,
        labels=labels,
        processes=processes_at(scale, processes),
        folder=folder,
        cache=TRAINED,
        failures=TrainingError,
        then=then,
    )


class Mean(NamedTuple):
    """A mean over seeds, and its standard error; None of a single seed."""

    value: float
    error: float | None
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        """Mean of a number that each seed has."""
        error = stdev(values) / sqrt(len(values)) if len(values) > 1 else None
        return cls(fmean(values), error, len(values))

    def spread(self, unit: str = "points") -> str:
        """The error in words: ``± 1.2 points (3 seeds)``."""
        if self.error is None:
            return "one seed"
        return f"± {self.error:.1f} {unit} ({self.seeds} seeds)"


class MissingTrainingsError(LookupError):
    """The rows lack trainings that a claim is about."""


class Means(dict[Hashable, float]):
    """Mean accuracies over seeds, by a column's value; one that is missing is asked for in vain.

    Raises `MissingTrainingsError` then, by which `of_whole_seeds` leaves the claim unanswered.
    """

    @classmethod
    def by(cls, rows: pl.DataFrame, column: str, value: str = "top1") -> Means:
        """Means of the rows that count, such as each training's last, ascending in the column."""
        means = rows.sort(column, "seed").group_by(column, maintain_order=True)
        return cls(means.agg(pl.col(value).mean()).drop_nulls(value).iter_rows())

    def __missing__(self, key: Hashable) -> float:
        raise MissingTrainingsError(key)

    def percents(self, *names: Hashable) -> str:
        """``30.0/60.0 % of dlion/ako``: of these names, or of all."""
        shown = names or tuple(self)
        return f"{percents(self[name] for name in shown)} % of {slashed(shown)}"


def percents(values: Iterable[float]) -> str:
    """Write shares as percentages: ``30.0/60.0``."""
    return slashed(f"{100 * value:.1f}" for value in values)


def slashed(values: Iterable[object]) -> str:
    """Join by slashes."""
    return "/".join(map(str, values))


def seconds_to(frame: pl.DataFrame, target: float) -> dict[Any, float | None]:
    """Seconds by seed until the accuracy ``top1``; None where it is never reached.

    Between rows it is interpolated, from 0 at 0 s. Rows hold the newest evaluation, so this is too
    late by up to the time between two evaluations.
    """
    return {
        seed: _first_s(part.drop_nulls("top1").sort("at_s").select("at_s", "top1").rows(), target)
        for (seed,), part in frame.group_by("seed", maintain_order=True)
    }


def _first_s(rows: Sequence[tuple[float, float]], target: float) -> float | None:
    for (before_s, before), (after_s, after) in pairwise([(0.0, 0.0), *rows]):
        if after >= target:
            share = (target - before) / (after - before) if after > before else 1.0
            return before_s + share * (after_s - before_s)
    return None


def mean_of_all(values: Iterable[float | None]) -> float | None:
    """Return the mean; None where one of the values is missing, which would bias it, or all are."""
    known = list(values)
    present = [value for value in known if value is not None]
    return fmean(present) if present and len(present) == len(known) else None


def learnt_data(frame: pl.DataFrame) -> str:
    """Write what was learnt from: ``10,000 samples of cifar10_10k``."""
    sets = frame.select("train_samples", "dataset").unique(maintain_order=True).drop_nulls()
    return " and ".join(f"{count:,} samples of {name}" for count, name in sets.iter_rows())


Answering = Callable[..., Answer | None]


def of_whole_seeds(least: int = 1) -> Callable[[Answering], Answering]:
    """Answer by the seeds in which every training ended well, if there are at least so many.

    The arguments of the decorated function that are frames are cut to these seeds. Where they lack
    a training that the claim is about (`MissingTrainingsError`), there is no answer.
    """

    def decorated(answer: Answering) -> Answering:
        @wraps(answer)
        def answered(*arguments: Any, **options: Any) -> Answer | None:
            frames = [value for value in arguments if isinstance(value, pl.DataFrame)]
            seeds = [set(frame["seed"]) for frame in frames]
            failed = {
                seed
                for frame in frames
                if "reason" in frame.columns
                for seed in frame.drop_nulls("reason")["seed"]
            }
            whole = set.intersection(*seeds) - failed
            if len(whole) < least:
                made: Answer | None = Answer(not_run=f"takes {counted(least, 'seed')}")
            else:
                kept = pl.col("seed").is_in(whole)
                cut = (
                    value.filter(kept) if isinstance(value, pl.DataFrame) else value
                    for value in arguments
                )
                try:
                    made = answer(*cut, **options)
                except MissingTrainingsError:
                    made = None
            missing = sorted(set.union(*seeds) - whole)
            if not missing or made is None:
                return made
            without = f"without seed {', '.join(map(str, missing))}, where trainings are missing"
            if made.not_run:
                return replace(made, not_run=f"{made.not_run}; here {without}")
            return replace(made, detail=f"{made.detail}, {without}")

        return answered

    return decorated
