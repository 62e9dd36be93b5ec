"""The paper's testbed: its stated facts, and the constants that it leaves open.

Six workers train Cipher for 1500 seconds in emulated micro-clouds (Hong & Chandra 2021, Sec. 5.1).
The paper states cores and links; not how long an iteration takes, how far cores help, what of a
link its messages reach, or the learning rate: `Constants`.

Deviation: first weights. The paper's Baseline, which exchanges whole gradients, ends below systems
that send less (Fig. 21), "since those systems do not synchronise the model". With equal first
weights synchronous replicas stay equal, and that cannot be. So each worker begins with weights of
its own; ``shared`` first weights are kept beside that as the other explanation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from workbench.clusters import load_constants, load_testbed
from workbench.datasets import Dataset
from workbench.dlion.algorithms.global_batch import Growth
from workbench.dlion.costs.environments import ENVIRONMENTS, Environment
from workbench.dlion.training import Setup
from workbench.profiles import profile_model
from workbench.training import Sgd
from workbench.utils.checks import check_name, choose

EXPLANATION = "own"
"""The explanation in `workbench.dlion.paper.calibration` by which whole gradients end lowest."""

STATED = load_testbed("dlion")

FIRST_WEIGHTS = ("own", "shared")
"""The explanations: whose first weights the workers begin with."""

LINKS = ("interface", "pair")
"""Readings of Table 3's Mbit/s: of a worker's interface, or of each of its links."""

SECONDS: float = STATED["training"]["cipher_s"]
LOCAL_BATCH: int = STATED["batches"]["initial_lbs"]
POINTS = 50_000
"""Training images of CIFAR-10; the paper says 60,000, which are all of them."""
WARM_UP_STEPS = 17
"""Growths of the global batch until it doubles: none of the paper's 1,500 s gets there."""

CPU_ENVIRONMENTS = tuple(name for name in STATED["environments"] if not name.endswith("_c"))
DYNAMIC = tuple(STATED["dynamic"]["environments"])
GPU_ENVIRONMENTS = ("homo_c", "hetero_sys_c")


@dataclass(frozen=True)
class Constants:
    """Constants of the testbed that the paper does not state."""

    sample_ms: float  # of learning Cipher from a sample on one core
    host_ms: float  # of every iteration, whatever its batch and cores
    parallel_share: float  # of a sample's computation (Amdahl)
    link_share: float  # of a link's rate that messages reach
    learning_rate: float
    growth_epochs: float  # passes over the paper's images from one growth of the batch to the next
    links: str = "interface"  # whose Table 3's Mbit/s are, of `LINKS`

    def __post_init__(self) -> None:
        check_name("links", self.links, LINKS)

    @classmethod
    def load(cls, explanation: str = EXPLANATION) -> Constants:
        """Read the constants that were fitted for an explanation; see `load_constants`."""
        return cls(**load_constants("dlion", explanation))


_ASSUMED = {name: STATED["assumed"][name] for name in ("sample_ms", "parallel_share", "link_share")}
_INTERFACE = Constants(host_ms=1600.0, learning_rate=0.1, growth_epochs=0.6, **_ASSUMED)
_PAIR = replace(_INTERFACE, host_ms=200.0, growth_epochs=3.7, links="pair")
CANDIDATES = {
    "0.05, 1600 ms": replace(_INTERFACE, learning_rate=0.05),
    "0.1, 1600 ms": _INTERFACE,
    "0.1, 200 ms, a link each": _PAIR,
}
"""Constants among which `workbench.dlion.paper.calibration` picks, by name.

Two readings of the pace. Where links share an interface, Homo A's LAN and Homo B's 50 Mbit/s are
far further apart than the paper's accuracies, unless the host takes most of an iteration on the
LAN. Where each link has its Mbit/s to itself, it takes little, and iterations are several times as
many. `growth_epochs` makes the batch grow about every 260 s in Homo A by either, since Fig. 6 has
steps at 250, 600 and 800 s.
"""


class Learner(NamedTuple):
    """The model that learns in the place of the one that is timed; both are of the zoo."""

    model: str = "cipher"
    timed: str = "cipher"
    stands_for: float = 1.0  # iterations of the timed model for each of the learner's
    local_batch: int = LOCAL_BATCH  # samples that stand for the paper's 32
    learning_rate: float | None = None  # None for the fitted one

    @property
    def sample_stands_for(self) -> float:
        """Samples of the timed model for each of the learner's."""
        return self.stands_for * LOCAL_BATCH / self.local_batch

    def epochs(self, of_paper: float, samples: int) -> float:
        """Passes over a number of samples that stand for epochs of the paper's."""
        return of_paper * POINTS / (samples * self.sample_stands_for)

    def growth(
        self, samples: int, growth: Growth, every_epochs: float, warm_up_epochs: float
    ) -> Growth:
        """The paper's growth of the global batch, with as many samples as the learner has.

        Epochs and shares are of the paper's training images, whatever the data set's size: where
        the paper's batch grows, so does this, by as large a share of it.
        """
        smaller = self.local_batch / LOCAL_BATCH
        return replace(
            growth,
            warm_up_add=round(growth.warm_up_add * smaller),
            every_epochs=self.epochs(every_epochs, samples),
            warm_up_epochs=self.epochs(warm_up_epochs, samples),
            warm_up_share=min(1.0, growth.warm_up_share * POINTS * smaller / samples),
            speed_up_share=min(1.0, growth.speed_up_share * POINTS * smaller / samples),
        )

    def iterations(self, of_paper: float) -> int:
        """Iterations that stand for some of the paper's; at least one."""
        return max(1, round(of_paper / self.stands_for))


@dataclass(frozen=True)
class Testbed:
    """Environments, and how long things take in them."""

    __test__ = False  # pytest: not a test case, whatever the name

    constants: Constants

    def sample_s(self, model: str = "cipher", unit: str = "cores") -> float:
        """Seconds to learn from a sample on one core, or, where the `unit` is "GPUs", on one GPU.

        Another model than Cipher takes as many times longer as it has operations; a GPU is as many
        times as fast as a core as the testbed's file assumes.
        """
        own, cipher = (profile_model(name).forward_flops for name in (model, "cipher"))
        faster = STATED["assumed"]["gpu_over_core"] if unit == "GPUs" else 1.0
        return self.constants.sample_ms / 1e3 * own / cipher / faster

    def environment(self, name: str | Environment, workers: int | None = None) -> Environment:
        """An environment by name, with another number of workers if asked."""
        where = choose("environment", name, ENVIRONMENTS) if isinstance(name, str) else name
        return where if workers is None or workers == where.workers else where.of(workers)

    def setup(
        self,
        learner: Learner,
        dataset: Dataset,
        environment: str | Environment,
        *,
        seconds: float = SECONDS,
        workers: int | None = None,
        **options: Any,
    ) -> Setup:
        """A training of some of the paper's seconds; `options` are of `Setup`."""
        constants = self.constants
        where = self.environment(environment, workers)
        own, timed = (profile_model(name).param_bytes for name in (learner.model, learner.timed))
        sample_s = self.sample_s(learner.timed, where.unit)
        cluster = where.cluster(
            parallel_share=constants.parallel_share,
            link_share=constants.link_share,
            carries=own / timed,
            shared_interfaces=constants.links == "interface",
        )
        rate = learner.learning_rate or constants.learning_rate
        return Setup(
            learner.model,
            dataset,
            cluster=cluster,
            seconds=seconds,
            local_batch=learner.local_batch,
            sgd=Sgd(rate),
            sample_s=sample_s * LOCAL_BATCH / learner.local_batch,
            host_s=constants.host_ms / 1e3,
            stands_for=learner.stands_for,
            **options,
        )


@lru_cache
def paper_testbed(explanation: str = EXPLANATION) -> Testbed:
    """The testbed with the constants that were fitted for an explanation."""
    return Testbed(Constants.load(explanation))
