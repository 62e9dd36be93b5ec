"""The paper's testbed: its stated facts, what is assumed, and the constant that is fitted.

The paper names its machines and leaves open how fast they train and what co-runs when. A platform's
seconds for a sample are those of its host (reading, transforming, dispatching), the same on every
host, and the model's operations over the rate that its processor or GPU sustains: the data sheet's
peak times a share, the same for all. Only the host's seconds are fitted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from workbench.clusters import Cluster, load_constants, load_testbed
from workbench.edgegossip.costs import platforms as costs
from workbench.edgegossip.costs.course import Epoch, course
from workbench.edgegossip.costs.platforms import Load, Platform, draw_load
from workbench.edgegossip.prediction.predictor import Predictor
from workbench.edgegossip.programs.trainer import EdgeGossip
from workbench.profiles import profile_model
from workbench.utils.checks import UserError, check_number
from workbench.zoo import MODELS as ZOO

EXPLANATION = "host"
"""Name of the fitted constant: GPUs are as fast as their data sheets say, hosts are not known."""

STATED = load_testbed("edgegossip")

MODELS = ("lenet5", "alexnet_cifar", "squeezenet_cifar", "mobilenet_v2_cifar")
DEPLOYMENTS: tuple[int, ...] = tuple(STATED["deployments"]["platforms"])
EPOCHS: int = STATED["assumed"]["epochs"]
RATIOS: tuple[float, ...] = tuple(STATED["aggregation"]["ratios"])
IMBALANCES = (1.0, 3.0, 5.0)
"""How many times slower two of four platforms are in Fig. 12."""

POINTS: int = STATED["training"]["points"]
BATCH_SIZE: int = STATED["training"]["batch_size"]
PLATFORMS = DEPLOYMENTS[0]
UPLINK_MBPS: float = STATED["assumed"]["uplink_mbps"]
RATIO: float = STATED["aggregation"]["ratio"]
LOAD_SEED = 1
DEFAULTS = EdgeGossip(ratio=RATIO)
HORIZON_S = 20_000.0
"""Until then jobs co-run; afterwards platforms are alone."""


@dataclass(frozen=True)
class Constants:
    """Constants of the testbed that the paper does not state."""

    host_ms: float  # of the host for each sample
    intensity: float = 1.0  # factor on all that co-runners use

    @classmethod
    def load(cls) -> Constants:
        """Read the constants that were fitted."""
        return cls(**load_constants("edgegossip", EXPLANATION))


def kinds(count: int) -> tuple[str, ...]:
    """Kinds of `count` platforms: the first half CPUs, then GPUs of both kinds in turn."""
    gpus = ("titan_xp", "rtx_2080_ti")
    cpus = (count + 1) // 2
    return ("cpu",) * cpus + tuple(gpus[at % 2] for at in range(count - cpus))


@dataclass(frozen=True)
class Deployment:
    """A model on platforms, at the size that the paper trains."""

    model: str
    platforms: tuple[Platform, ...]
    points: tuple[int, ...]  # of each platform
    uplink_bps: float  # of each platform
    assumed: Mapping[str, Any]  # of the testbed
    stands_for: float  # points of the paper for each of `points`

    @property
    def overhead_s(self) -> float:
        """Seconds of each transmission."""
        return float(self.assumed["overhead_ms"]) / 1e3

    @property
    def peers(self) -> int | None:
        """Peers of each platform, the nearest on a ring; None for all."""
        peers: int | None = self.assumed["peers"]
        return peers

    @property
    def exchange_s(self) -> float:
        """Seconds that the models of an epoch take."""
        model_bytes = profile_model(self.model).param_bytes
        others = len(self.platforms) - 1
        peers = others if self.peers is None else min(self.peers, others)
        return costs.exchange_s(peers, model_bytes, self.uplink_bps, self.overhead_s)

    def options(self, how: EdgeGossip = DEFAULTS) -> EdgeGossip:
        """Options of EdgeGossip with the costs that are assumed here."""
        return replace(
            how,
            forward_share=1.0 / (1.0 + self.assumed["backward_over_forward"]),
            operations_per_s=self.assumed["operations_per_s"],
            stands_for=self.stands_for,
            features=math.prod(ZOO[self.model].input_shape),
            window_s=self.assumed["window_s"],
        )

    def course(
        self, epochs: int, how: EdgeGossip | None = None, *, batch_size: int = 1
    ) -> list[Epoch]:
        """Course of a training with EdgeGossip as `options` returns it, or of plain gossip."""
        return course(
            self.platforms,
            self.points,
            epochs,
            self.exchange_s,
            how,
            peers=self.peers,
            batch_size=batch_size,
        )

    def cluster(self, model_bytes: float | None = None) -> Cluster:
        """Its network; for a model of `model_bytes`, one that carries it as fast as its own."""
        share = 1.0
        if model_bytes is not None:
            share = model_bytes / profile_model(self.model).param_bytes
        return costs.cluster(self.platforms, self.uplink_bps * share, self.overhead_s)


@dataclass(frozen=True)
class Testbed:
    """Kinds of platforms, and what is known of their speed."""

    __test__ = False  # pytest: not a test case, whatever the name

    constants: Constants
    assumed: Mapping[str, Any] = field(default_factory=lambda: STATED["assumed"])

    def seconds(self, model: str, kind: str) -> tuple[float, float]:
        """Seconds for a sample without contention: the host's, and the processor's or GPU's."""
        work = profile_model(model).forward_flops * (1 + self.assumed["backward_over_forward"])
        rate = STATED["kinds"][kind]["peak_flops_per_s"] * self.assumed["sustained_share"]
        return self.constants.host_ms / 1e3, work / rate

    def predictor(self, model: str, kind: str, stands_for: float = 1.0) -> Predictor:
        """Predictor of a kind of platform, for samples that stand for `stands_for` each.

        Co-runners use processors, so on a GPU platform only the host's part of a sample is slowed.
        """
        host_s, device_s = self.seconds(model, kind)
        slowed = (host_s + device_s if kind == "cpu" else host_s) / (host_s + device_s)
        weights = STATED["slowdown"]
        return Predictor(
            "linear",
            STATED["kinds"][kind]["cores"],
            weights["network_scale"],
            weights["disk_scale"],
            tuple(slowed * weights[name] for name in ("core", "network", "disk")),
            stands_for * (host_s + device_s),
        )

    def deployment(
        self,
        model: str,
        platforms: int | Sequence[str] = PLATFORMS,
        *,
        points: int | Sequence[int] | None = None,
        uplink_mbps: float = UPLINK_MBPS,
        slower: Sequence[float] | None = None,
        seed: int = LOAD_SEED,
        until_s: float = HORIZON_S,
        stands_for: float = 1.0,
    ) -> Deployment:
        """A model on this number of platforms, or on platforms of the kinds named.

        `points` of each platform are those of the testbed, unless given: one number for all, or one
        for each. Each stands for `stands_for` of the paper's and takes that many times as long.
        `slower` says how many times slower than its kind each platform is. `seed` draws the
        co-runners, which run until `until_s`.
        """
        named = kinds(platforms) if isinstance(platforms, int) else tuple(platforms)
        count = len(named)
        if points is None:
            points = self.assumed["points_per_platform"] or POINTS // count
        held = (points,) * count if isinstance(points, int) else tuple(points)
        made = tuple(
            Platform(
                f"{kind}{at}",
                self.predictor(model, kind, stands_for),
                _drawn(seed, at, until_s, self.constants.intensity),
                factor,
            )
            for at, (kind, factor) in enumerate(zip(named, slower or (1.0,) * count, strict=True))
        )
        if not 0 < check_number("uplink_mbps", uplink_mbps) < math.inf:
            raise UserError(f"uplink_mbps is {uplink_mbps}; give a finite number above 0")
        return Deployment(model, made, held, uplink_mbps * 1e6, self.assumed, stands_for)


@lru_cache(maxsize=1024)
def _drawn(seed: int, platform: int, until_s: float, intensity: float) -> Load:
    """Draw the load of a platform, once for all models."""
    return draw_load(seed, platform, STATED["co_runners"], until_s, intensity)


def settings(deployments: Sequence[int] = DEPLOYMENTS) -> Iterator[tuple[str, int]]:
    """Models and numbers of platforms: all models on the first deployment, two on all."""
    for model in MODELS:
        for platforms in deployments if model in MODELS[:2] else deployments[:1]:
            yield model, platforms


@lru_cache
def paper_testbed() -> Testbed:
    """The testbed with the fitted constant."""
    return Testbed(Constants.load())
