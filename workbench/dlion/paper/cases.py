"""A training on the paper's testbed, named by plain values, so that each is made once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench import datasets
from workbench.datasets import Dataset, partition
from workbench.dlion.algorithms import SYSTEMS, System
from workbench.dlion.algorithms.baseline import whole
from workbench.dlion.algorithms.global_batch import Growth
from workbench.dlion.algorithms.knowledge_transfer import Transfer
from workbench.dlion.algorithms.max_n import MaxN
from workbench.dlion.algorithms.synchronisation import synchronous
from workbench.dlion.algorithms.system import Batching
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
from workbench.experiments import Scaled, data_set
from workbench.experiments.data import loaded_once
from workbench.names import choose
from workbench.zoo import MODELS as ZOO

if TYPE_CHECKING:
    from workbench.runtime import Fault


AT_DEFAULT = "digits"
"""Data: in the few hundred iterations of minutes hardly anything is learnt from cluttered ones."""


class Learning(NamedTuple):
    """Who learns from what, for how many of the paper's seconds, and how often that is looked at.

    Attributes
    ----------
    samples, test_samples
        At most; None for all.
    evaluate_every, timing_period
        Iterations of the learner from one evaluation, or timing of batches, to the next.
    source
        The data set.
    """

    learner: Learner
    samples: int | None
    test_samples: int | None
    evaluate_every: int
    timing_period: int
    seconds: float = SECONDS
    source: str = "digits"

    def of(self, scale: str, dataset: str = "auto") -> Learning:
        """The same of the data that are asked for at a scale."""
        return self._replace(source=data_set(scale, "cifar10", dataset, at_default=AT_DEFAULT))

    @property
    def data(self) -> Dataset:
        """The data, fitted to the learner's input."""
        return data(self.source, self.learner.model, self.samples, self.test_samples)


_SMALL = Learner("cipher_small", "cipher", stands_for=8.0, local_batch=16, learning_rate=0.5)
LEARNING = Scaled(
    smoke=Learning(_SMALL._replace(stands_for=120.0), 240, 60, 3, 3),
    # Batches are timed less often than the paper's, as that takes gradients for nothing else.
    default=Learning(_SMALL, 1500, 200, 20, 15),
    paper=Learning(Learner(), None, None, 100, 100),
)
"""In Cipher's place. One iteration stands for several, one sample for several of its samples."""


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


@loaded_once
def data(source: str, model: str, samples: int | None, test_samples: int | None) -> Dataset:
    """Load a data set, cut, fitted to a model and standardised."""
    found = datasets.load(source).limit(train=samples, test=test_samples)
    return found.fitted(ZOO[model].input_shape).standardised()


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
    faults: Iterable[Fault] = (),
    patience_s: float | None = None,
) -> Trained:
    """Train a case."""
    found, where = learning.data, paper_testbed()
    shards: Any = None
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
