"""Trainings on the paper's testbed, named by plain values, so that each is made once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from workbench import datasets
from workbench.datasets import Dataset, partition
from workbench.dlion.algorithms import SYSTEMS, System
from workbench.dlion.algorithms.baseline import whole
from workbench.dlion.algorithms.global_batch import Growth
from workbench.dlion.algorithms.knowledge_transfer import Transfer
from workbench.dlion.algorithms.max_n import MaxN
from workbench.dlion.algorithms.synchronisation import synchronous
from workbench.dlion.algorithms.system import Batching
from workbench.dlion.paper.experiments import scales
from workbench.dlion.paper.testbed import (
    CANDIDATES,
    GROWTH_EPOCHS,
    SECONDS,
    WARM_UP_EPOCHS,
    Learner,
    Testbed,
    paper_testbed,
)
from workbench.dlion.training import Trained, train
from workbench.experiments import data_set
from workbench.experiments.data import loaded_once
from workbench.names import choose
from workbench.zoo import MODELS as ZOO

if TYPE_CHECKING:
    from workbench.runtime import Fault

POINTS = 15
"""Instants at which a curve has a row."""


class Case(NamedTuple):
    """One training. None leaves a system as it is.

    Attributes
    ----------
    system, environment, seed
        Who, where; of weights, shards and batches.
    techniques
        Of DLion, those that are on, of ``"batching"``, ``"links"`` and ``"transfer"``.
    n, accumulate
        Of Max N for all links; whether what is not sent adds up.
    weighting, growth_epochs
        Of dynamic batching: name in `WEIGHTINGS`; paper's epoch from which the global batch
        doubles every epoch.
    period, share, whom, early
        Of knowledge transfer: the paper's iterations, lambda, who asks, and iterations with a
        tenth of the period at first.
    candidate, first_weights, synchronous, classes, workers, times_as_long
        Of the training: constants, of `CANDIDATES`; whose first weights; whether all wait for all;
        classes that a worker has samples of; how many workers; factor on the seconds.
    """

    system: str = "dlion"
    environment: str = "homo_a"
    seed: int = 1
    techniques: tuple[str, ...] | None = None
    n: float | None = None
    accumulate: bool | None = None
    weighting: str | None = None
    growth_epochs: int | None = None
    period: int | None = None
    share: float | None = None
    whom: str | None = None
    early: int | None = None
    candidate: str | None = None
    first_weights: str | None = None
    synchronous: bool | None = None
    classes: int | None = None
    workers: int | None = None
    times_as_long: float = 1.0


class Learning(NamedTuple):
    """Who learns from what, and how often that is looked at."""

    learner: Learner
    source: str
    samples: int | None
    test_samples: int | None
    evaluate_every: int
    timing_period: int
    seconds: float = SECONDS

    @property
    def data(self) -> Dataset:
        """The data, fitted to the learner's input."""
        return data(self.source, self.learner.model, self.samples, self.test_samples)


@loaded_once
def data(source: str, model: str, samples: int | None, test_samples: int | None) -> Dataset:
    """Load a data set, cut, fitted to a model and standardised."""
    found = datasets.load(source).limit(train=samples, test=test_samples)
    return found.fitted(ZOO[model].input_shape).standardised()


def learning_at(scale: str, dataset: str = "auto", *, mobile: bool = False) -> Learning:
    """The learner at a scale, in the place of Cipher or MobileNet."""
    learners = scales.MOBILE_LEARNERS if mobile else scales.LEARNERS
    return Learning(
        learners.at(scale),
        data_set(scale, "cifar10", dataset, at_default=scales.AT_DEFAULT),
        scales.SAMPLES.at(scale),
        scales.TEST_SAMPLES.at(scale),
        scales.EVALUATE_EVERY.at(scale),
        scales.TIMING_PERIOD.at(scale),
    )


def system_of(case: Case, learning: Learning, samples: int) -> System:
    """The system of a case, its periods in the learner's iterations and epochs."""
    system, learner = choose("system", case.system, SYSTEMS), learning.learner
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
        hook = MaxN(case.n, accumulate=bool(case.accumulate))
        system = replace(system, generate_partial_gradients=hook)
    if case.synchronous:
        system = replace(system, synch_training=synchronous)
    batching = _batching(system.batching, case, learning, samples)
    return replace(system, batching=batching, transfer=_transfer(system.transfer, case, learner))


def _batching(
    batching: Batching | None, case: Case, learning: Learning, samples: int
) -> Batching | None:
    if batching is None:
        return None
    learner, growth, epochs = learning.learner, batching.growth, (GROWTH_EPOCHS, WARM_UP_EPOCHS)
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


def run(
    case: Case,
    learning: Learning,
    *,
    testbed: Testbed | None = None,
    faults: Iterable[Fault] = (),
    patience_s: float | None = None,
) -> Trained:
    """Train a case."""
    found = learning.data
    shards: Any = None
    where = testbed or paper_testbed()
    if case.candidate is not None:
        where = Testbed(choose("candidate", case.candidate, CANDIDATES))
    if case.classes is not None:
        workers = case.workers or where.environment(case.environment).workers
        shards = partition.by_class(
            found.y_train, workers, classes_per_node=case.classes, seed=case.seed
        )
    setup = where.setup(
        learning.learner,
        found,
        case.environment,
        seconds=learning.seconds * case.times_as_long,
        workers=case.workers,
        first_weights=case.first_weights,
        shards=shards,
        seed=case.seed,
        evaluate_every=learning.evaluate_every,
        patience_s=patience_s,
    )
    return train(setup, system_of(case, learning, len(found.y_train)), faults=tuple(faults))


CURVE: dict[str, Any] = {
    "reason": pl.String,
    "at_s": pl.Float64,
    "top1": pl.Float64,
    "top1_sd": pl.Float64,
    "loss": pl.Float64,
    "iterations": pl.Float64,
    "mbytes": pl.Float64,
    "global_batch": pl.Int64,
}
"""Of a curve: means over workers, and their standard deviation; what was sent by then; the largest
global batch so far, of the learner's samples."""


def curve(trained: Trained, seconds: float, points: int = POINTS) -> pl.DataFrame:
    """Rows at equal steps of time: of each worker the newest evaluation by then.

    That is up to `evaluate_every` iterations old, 100 at scale ``paper``, so that a curve shows an
    accuracy as much later than it was reached.
    """
    ends_s = [seconds * (at + 1) / points for at in range(points)]
    evaluations = trained.evaluations.sort("at_s", maintain_order=True)  # of equal times the last
    workers = len(trained.weights)
    rows = []
    for end_s in ends_s:
        known = evaluations.filter(pl.col("at_s") <= end_s)
        newest = known.group_by("node").last().sort("node")  # sums depend on the order
        done = trained.iterations.filter(pl.col("at_s") <= end_s)
        sent = trained.transfers.filter(pl.col("at_s") <= end_s)
        whole_round = len(newest) == workers
        rows.append(
            {
                "at_s": end_s,
                "top1": newest["top1"].mean() if whole_round else None,
                "top1_sd": newest["top1"].std() if whole_round else None,
                "loss": newest["loss"].mean() if whole_round else None,
                "iterations": len(done) / workers,
                "mbytes": int(sent["bytes"].sum()) / 1e6,
                "global_batch": done["global_batch"].max(),
            }
        )
    return pl.DataFrame(rows, schema={name: CURVE[name] for name in list(CURVE)[1:]})


def about(case: Case, learning: Learning) -> Mapping[str, Any]:
    """What a row says of its training."""
    return {
        **case._asdict(),
        "techniques": None if case.techniques is None else " + ".join(case.techniques),
        "learner": learning.learner.model,
        "timed": learning.learner.timed,
        "stands_for": learning.learner.stands_for,
        "dataset": learning.data.name,
        "train_samples": len(learning.data.y_train),
        "test_samples": len(learning.data.y_test),
        "seconds": learning.seconds * case.times_as_long,
    }


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
    "synchronous": pl.Boolean,
    **dict.fromkeys(("classes", "workers"), pl.Int64),
    "times_as_long": pl.Float64,
    **dict.fromkeys(("learner", "timed"), pl.String),
    "stands_for": pl.Float64,
    "dataset": pl.String,
    **dict.fromkeys(("train_samples", "test_samples"), pl.Int64),
    "seconds": pl.Float64,
}


def each_seed(cases: Sequence[Case], seeds: Iterable[int]) -> list[Case]:
    """Every case with each seed, all of one seed together."""
    return [case._replace(seed=one) for one in seeds for case in cases]
