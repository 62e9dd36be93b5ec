"""Trainings on the paper's testbed, named by plain values, and their rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from workbench import datasets
from workbench.datasets import Dataset, partition
from workbench.decentralised.exchange import MakeExchange
from workbench.decentralised.exchanges import EXCHANGES
from workbench.dlion.algorithms import SYSTEMS, System
from workbench.dlion.algorithms.ako import Blocks
from workbench.dlion.algorithms.baseline import whole
from workbench.dlion.algorithms.global_batch import Growth
from workbench.dlion.algorithms.hop import STALENESS
from workbench.dlion.algorithms.knowledge_transfer import Transfer
from workbench.dlion.algorithms.max_n import MaxN, PerLinkAddedUp, per_link
from workbench.dlion.algorithms.system import Batching
from workbench.dlion.gradient import Accumulated
from workbench.dlion.paper.testbed import (
    CANDIDATES,
    EXPLANATION,
    SECONDS,
    STATED,
    WARM_UP_STEPS,
    Learner,
    Testbed,
    paper_testbed,
)
from workbench.dlion.training import Trained, train
from workbench.reproduction.data import data_set, loaded_once
from workbench.reproduction.figure import Figure
from workbench.reproduction.scales import Scaled, seeds_from
from workbench.reproduction.trainings import SEEDS, train_all, with_seeds
from workbench.runtime import Crash, Fault, LinkDown, Restart
from workbench.training import TrainingError
from workbench.utils.checks import UserError, choose
from workbench.zoo import MODELS as ZOO


class Case(NamedTuple):
    """One training. None leaves a system as it is."""

    system: str = "dlion"
    environment: str = "homo_a"
    seed: int = 1  # of weights, shards and batches
    techniques: tuple[str, ...] | None = None  # DLion's that are on: batching, links, transfer
    n: float | None = None  # of Max N for all links
    accumulate: bool | None = None  # whether what is not sent adds up, of DLion, Ako and `n`
    weighting: str | None = None  # of dynamic batching, of `WEIGHTINGS`
    growth_epochs: int | None = None  # paper's from which on the global batch doubles in each
    period: int | None = None  # of knowledge transfer, the paper's iterations
    share: float | None = None  # lambda
    whom: str | None = None  # who asks for weights
    early: int | None = None  # iterations with a tenth of the period at first
    candidate: str | None = None  # constants, of `CANDIDATES`
    first_weights: str | None = None
    classes: int | None = None  # that a worker has samples of
    workers: int | None = None
    scenario: str | None = None  # what fails, of `SCENARIOS`


BY_SENTENCE = 90.0
"""Max 10's N by the paper's sentence, at least 10 % of the largest, in terms of its examples."""
MAX_10 = (
    Case("max10"),
    Case("max10", n=BY_SENTENCE),
    Case("max10", n=BY_SENTENCE, accumulate=True),
)
"""Max 10 by the examples and by the sentence; by the latter also with what is not sent adding up,
as in Gaia, to which the paper likens it."""


class Learning(NamedTuple):
    """Who learns from what, for how many of the paper's seconds, and when that is looked at."""

    learner: Learner
    samples: int | None  # at most; None for all
    test_samples: int | None
    evaluate_every: int  # iterations of the learner
    timing_period: int  # of its iterations, from one timing of batches to the next
    seconds: float = SECONDS
    source: str = "digits"
    instants: int = 15  # at which a curve has a row

    def of(self, scale: str, dataset: str = "auto") -> Learning:
        """The same with the data that are asked for at a scale."""
        return self._replace(source=data_set(scale, "cifar10", dataset, at_default=AT_DEFAULT))

    @property
    def data(self) -> Dataset:
        """The data, fitted to the learner's input."""
        return _data(self.source, self.learner.model, self.samples, self.test_samples)


AT_DEFAULT = "digits"
"""Data: in the few hundred iterations of minutes hardly anything is learnt from cluttered ones."""
_SMALL = Learner("cipher_small", "cipher", stands_for=8.0, local_batch=16, learning_rate=0.5)
LEARNING = Scaled(
    smoke=Learning(_SMALL._replace(stands_for=120.0), 240, 60, 3, 3),
    # Batches are timed less often than the paper's, as that takes gradients for nothing else.
    default=Learning(_SMALL, 1500, 200, 20, 15),
    paper=Learning(Learner(), None, None, 100, 100),
)
"""In Cipher's place. One iteration stands for several, one sample for several of its samples."""

_OFTEN = {"evaluate_every": STATED["training"]["evaluate_every"], "instants": 60}
TIMED = LEARNING._replace(paper=LEARNING.paper._replace(**_OFTEN))
"""For figures of training times and highest accuracies, evaluated as often as the paper does.

Deviation: that takes half as long again, so all other figures, which show final accuracies alone,
are evaluated every 100 iterations at scale ``paper`` (Sec. 5.1.3 has 20, of "training time until a
target model accuracy is reached").
"""

SIZES: Mapping[str, Scaled[Any]] = {"learning": LEARNING, "usual_seeds": SEEDS}
training_figure = partial(
    Figure, sizes=SIZES, recorded=True, data=("cifar10",), data_at_default=AT_DEFAULT
)
"""A figure of trainings."""
accuracy_figure = partial(training_figure, needs_paper_size=True)
"""A figure of trainings whose claims only trainings of the paper's size decide."""


@loaded_once
def _data(source: str, model: str, samples: int | None, test_samples: int | None) -> Dataset:
    """Load a data set, cut, fitted to a model and standardised."""
    loaded = datasets.load(source).limit(train=samples, test=test_samples)
    return loaded.fitted(ZOO[model].input_shape).standardised()


# --- What a case trains ---------------------------------------------------------------------------


def testbed_of(case: Case) -> Testbed:
    """The testbed of a case, with the fitted constants unless it names others."""
    if case.candidate is None:
        return paper_testbed()
    return Testbed(choose("candidate", case.candidate, CANDIDATES))


_ADDED_UP: dict[str, tuple[Any, Any]] = {
    "dlion": (per_link, PerLinkAddedUp),
    "ako": (Blocks(accumulate=False), Blocks),
}
"""Hooks by system: one forgets what is not sent, the other adds it up."""


def system_of(case: Case, learning: Learning, samples: int) -> System:
    """The system of a case, its periods in the learner's iterations and epochs."""
    system = choose("system", case.system, SYSTEMS)
    if case.techniques is not None:
        system = replace(
            system,
            generate_partial_gradients=(
                system.generate_partial_gradients if "links" in case.techniques else whole
            ),
            batching=system.batching if "batching" in case.techniques else None,
            transfer=system.transfer if "transfer" in case.techniques else None,
        )
    if case.n is not None:
        rule = MaxN(case.n)
        hook = Accumulated(rule.selected) if case.accumulate else rule
        system = replace(system, generate_partial_gradients=hook)
    elif case.accumulate is not None:
        hooks = _ADDED_UP.get(case.system) if case.techniques is None else None
        if hooks is None:
            raise UserError(
                f"accumulate is {case.accumulate}, but {system.title} here sends whole gradients "
                f"or has a rule of its own; give n, or one of {', '.join(_ADDED_UP)} as it is"
            )
        system = replace(system, generate_partial_gradients=hooks[case.accumulate])
    return replace(
        system,
        batching=_batching(system.batching, case, learning, samples),
        transfer=_transfer(system.transfer, case, learning.learner),
    )


def _batching(
    batching: Batching | None, case: Case, learning: Learning, samples: int
) -> Batching | None:
    if batching is None:
        return None
    learner, growth = learning.learner, batching.growth
    every = testbed_of(case).constants.growth_epochs
    epochs = (every, WARM_UP_STEPS * every)
    if case.growth_epochs is not None:
        growth, epochs = Growth(warm_up_add=0), (1.0, case.growth_epochs)
    return replace(
        batching,
        growth=learner.growth(samples, growth, *epochs),
        period=learning.timing_period,
        sizes=(max(1, learner.local_batch // 4), learner.local_batch),
        weighting=case.weighting or batching.weighting,
    )


def _transfer(transfer: Transfer | None, case: Case, learner: Learner) -> Transfer | None:
    if transfer is None:
        return None
    period = transfer.period if case.period is None else case.period
    early = case.early or 0
    return replace(
        transfer,
        period=learner.iterations(period),
        losses=learner.iterations(transfer.losses),
        share=transfer.share if case.share is None else case.share,
        whom=case.whom or transfer.whom,
        early_until=learner.iterations(early) if early else 0,
        early_period=learner.iterations(period / 10),
    )


def _crash(seconds: float) -> Fault:
    return Crash(1, seconds / 4)


SCENARIOS: Mapping[str, Callable[[float], tuple[Fault, ...]]] = {
    "worker 1 crashes": lambda seconds: (_crash(seconds),),
    "and comes back": lambda seconds: (_crash(seconds), Restart(1, seconds / 2)),
    "a link fails": lambda seconds: (LinkDown(0, 1, seconds / 4, seconds / 2),),
}
"""Faults of a training of some seconds, by scenario."""


def run(case: Case, learning: Learning) -> Trained:
    """Train a case."""
    data, where, shards = learning.data, testbed_of(case), None
    faults: tuple[Fault, ...] = ()
    patience_s = None
    if case.scenario is not None:
        faults = choose("scenario", case.scenario, SCENARIOS)(learning.seconds)
        patience_s = min(20 * learning.learner.stands_for, learning.seconds / 5)
    if case.classes is not None:
        workers = case.workers or where.environment(case.environment).workers
        shards = partition.by_class(
            data.y_train, workers, classes_per_node=case.classes, seed=case.seed
        )
    setup = where.setup(
        learning.learner,
        data,
        case.environment,
        seconds=learning.seconds,
        workers=case.workers,
        first_weights=case.first_weights or EXPLANATION,
        shards=shards,
        seed=case.seed,
        evaluate_every=learning.evaluate_every,
        patience_s=patience_s,
    )
    how: System | MakeExchange
    if case.system in EXCHANGES:
        how = EXCHANGES[case.system]
    else:
        how = system_of(case, learning, len(data.y_train))
    with warnings.catch_warnings():  # small scales are shorter than an exchange's period
        warnings.filterwarnings("ignore", r".* exchanges models every", UserWarning)
        return train(setup, how, faults=faults)


# --- Its rows -------------------------------------------------------------------------------------

CURVE: dict[str, Any] = {
    "reason": pl.String,
    **dict.fromkeys(("at_s", "top1", "top1_sd", "loss", "iterations", "mbytes"), pl.Float64),
    "global_batch": pl.Int64,
}
"""Columns of a curve: means over workers and their standard deviation, megabytes sent by then, and
the largest global batch so far, in samples of the learner."""

ABOUT: dict[str, Any] = {
    **dict.fromkeys(("system", "environment"), pl.String),
    "seed": pl.Int64,
    "techniques": pl.String,
    "n": pl.Float64,
    "accumulate": pl.Boolean,
    "weighting": pl.String,
    **dict.fromkeys(("growth_epochs", "period"), pl.Int64),
    "share": pl.Float64,
    "whom": pl.String,
    "early": pl.Int64,
    **dict.fromkeys(("candidate", "first_weights"), pl.String),
    **dict.fromkeys(("staleness", "classes", "workers"), pl.Int64),
    "scenario": pl.String,
    **dict.fromkeys(("learner", "timed"), pl.String),
    "stands_for": pl.Float64,
    "dataset": pl.String,
    **dict.fromkeys(("train_samples", "test_samples"), pl.Int64),
    "seconds": pl.Float64,
}


def about(case: Case, learning: Learning) -> dict[str, Any]:
    """Columns that describe a training; ``staleness`` is how far Hop's workers may be apart."""
    return {
        **case._asdict(),
        "techniques": None if case.techniques is None else " + ".join(case.techniques),
        "staleness": STALENESS if case.system == "hop" else None,
        "learner": learning.learner.model,
        "timed": learning.learner.timed,
        "stands_for": learning.learner.stands_for,
        "dataset": learning.data.name,
        "train_samples": len(learning.data.y_train),
        "test_samples": len(learning.data.y_test),
        "seconds": learning.seconds,
    }


def curve(trained: Trained, seconds: float, instants: int) -> list[dict[str, Any]]:
    """Rows at equal steps of time: of each worker the newest evaluation by then.

    That is up to `evaluate_every` iterations old, so that a curve shows an accuracy as much later
    than it was reached.
    """
    evaluations = trained.evaluations.sort("at_s", maintain_order=True)  # of equal times the last
    workers = len(trained.weights)
    rows = []
    for instant in range(instants):
        end_s = seconds * (instant + 1) / instants
        by_then = pl.col("at_s") <= end_s
        newest = evaluations.filter(by_then).group_by("node").last().sort("node")
        finished = trained.iterations.filter(by_then)
        evaluated = len(newest) == workers
        rows.append(
            {
                "at_s": end_s,
                "top1": newest["top1"].mean() if evaluated else None,
                "top1_sd": newest["top1"].std() if evaluated else None,
                "loss": newest["loss"].mean() if evaluated else None,
                "iterations": len(finished) / workers,
                "mbytes": int(trained.transfers.filter(by_then)["bytes"].sum()) / 1e6,
                "global_batch": finished["global_batch"].max(),
            }
        )
    return rows


def rows_of(*, case: Case, learning: Learning) -> list[dict[str, Any]]:
    """A training's rows; of one that failed, what it is and why."""
    known = about(case, learning)
    try:
        rows = curve(run(case, learning), learning.seconds, learning.instants)
    except TrainingError as error:
        rows = [{"reason": str(error)}]
    return [{**known, **row} for row in rows]


def trained(
    title: str,
    cases: Sequence[Case],
    *,
    scale: str,
    learning: Learning,
    usual_seeds: int,
    seed: int = 1,
    dataset: str = "auto",
    seeds: int | None = None,
    processes: int | None = None,
    folder: Path | None = None,
) -> pl.DataFrame:
    """Train each case with this many seeds from `seed` on; a row per instant of each training."""
    points = [
        {"system": case.system, "environment": case.environment, "seed": case.seed, "case": case}
        for case in with_seeds(cases, seeds_from(seed, seeds, usual_seeds))
    ]
    return train_all(
        title,
        rows_of,
        points,
        ABOUT | CURVE,
        scale=scale,
        labels=("system", "environment", "seed"),
        shared={"learning": learning.of(scale, dataset)},
        processes=processes,
        folder=folder,
    )
