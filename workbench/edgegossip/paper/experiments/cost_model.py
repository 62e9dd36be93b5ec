"""Figs. 6 and 8 by the cost model at the paper's size, and what the mean speed-up rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import polars as pl

from workbench.edgegossip.algorithms.balancer import BALANCERS
from workbench.edgegossip.costs.course import Epoch, selecting_share, total_s
from workbench.edgegossip.paper import calibration
from workbench.edgegossip.paper.calibration import speedups
from workbench.edgegossip.paper.testbed import (
    DEPLOYMENTS,
    EPOCHS,
    IMBALANCES,
    LOAD_SEED,
    MODELS,
    PLATFORMS,
    RATIOS,
    STATED,
    UPLINK_MBPS,
    Constants,
    Testbed,
    paper_testbed,
    settings,
)
from workbench.experiments import grid, sweep

FIG6 = {
    "model": pl.String,
    "platforms": pl.Int64,
    "uplink_mbps": pl.Float64,
    "epochs": pl.Int64,
    **dict.fromkeys(("gosgd_s", "edgegossip_s", "speedup", "exchange_s", "kept"), pl.Float64),
}


def fig6(uplink_mbps: float = UPLINK_MBPS, epochs: int = EPOCHS) -> pl.DataFrame:
    """Training time by model and number of platforms (Fig. 6).

    A row per setting: ``model, platforms, uplink_mbps, epochs, gosgd_s, edgegossip_s, speedup,
    exchange_s`` (of an epoch) and ``kept``, the share of samples that EdgeGossip learns from.
    """
    points = [{"model": model, "platforms": count} for model, count in settings()]
    shared = {"uplink_mbps": uplink_mbps, "epochs": epochs}
    return sweep("Figure 6", _both, points, FIG6, shared=shared)


def _both(
    model: str, platforms: int, uplink_mbps: float, epochs: int, **_: object
) -> dict[str, float]:
    deployment = paper_testbed().deployment(model, platforms, uplink_mbps=uplink_mbps)
    plain = deployment.course(epochs)
    ours = deployment.course(epochs, deployment.aggregating())
    return {
        "gosgd_s": total_s(plain),
        "edgegossip_s": total_s(ours),
        "speedup": total_s(plain) / total_s(ours),
        "exchange_s": deployment.exchange_s,
        "kept": sum(one.samples for one in ours) / sum(one.samples for one in plain),
    }


READINGS = ("whole epoch", "at work", "CPU platforms", "one CPU platform")
"""What Fig. 8's percentage may be taken of; the first answers the paper's numbers."""

FIG8 = {
    "model": pl.String,
    "ratio": pl.Float64,
    "reading": pl.String,
    **dict.fromkeys(("ranking_s", "learning_s", "waiting_s", "percent"), pl.Float64),
}


def fig8(epochs: int = EPOCHS) -> pl.DataFrame:
    """Time spent on aggregated points, read in four ways (Fig. 8).

    ``whole epoch``: of an epoch's total time, waiting included, on the first deployment, as Sec.
    4.3 defines the percentage. ``at work``: of the time that goes into ranking and learning alone.
    ``CPU platforms``: the same on these alone. ``one CPU platform``: all points on a single one.
    The technique does not matter here.

    Deviation: Sec. 4.3 names a single executor, of the CPU platform. Alone it keeps all its points,
    so that its share is that of the ratio and no model's, where the paper has two numbers for two
    models and speaks of retained points. So its definition is taken, and the first deployment,
    knowing what all four give; by the second reading LeNet-5 is near, AlexNet is not.

    A row per model, ratio and reading: ``model, ratio, reading, ranking_s, learning_s, waiting_s``
    (means of a platform's epoch, after the first) and ``percent``.
    """
    points = grid(model=MODELS[:2], ratio=RATIOS)
    return sweep("Figure 8", _shares, points, FIG8, shared={"epochs": epochs})


def _shares(model: str, ratio: float, epochs: int, **_: object) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for reading, course in _read(model, ratio, epochs).items():
        later = [one for one in course if one.epoch > 1]
        rows.append(
            {
                "reading": reading,
                "ranking_s": fmean(one.select_s for one in later),
                "learning_s": fmean(one.learn_s for one in later),
                "waiting_s": fmean(one.wait_s for one in later),
                "percent": 100 * selecting_share(later, waiting=reading == READINGS[0]),
            }
        )
    return rows


def _read(model: str, ratio: float, epochs: int) -> dict[str, list[Epoch]]:
    """Epochs of the platforms that count, by reading."""
    first, alone = (paper_testbed().deployment(model, who) for who in (PLATFORMS, ("cpu",)))
    every, one = (
        each.course(max(2, epochs), each.aggregating(ratio=ratio)) for each in (first, alone)
    )
    cpus = [one for one in every if first.platforms[one.node].name.startswith("cpu")]
    return dict(zip(READINGS, (every, every, cpus, one), strict=True))


FIG12 = {
    "imbalance": pl.Float64,
    **dict.fromkeys(("gosgd_s", "literal_s", "with_ranking_s"), pl.Float64),
}


def fig12_times(epochs: int = EPOCHS) -> pl.DataFrame:
    """Training times of Fig. 12: plain gossip, and EdgeGossip by both balancers.

    A row per imbalance: ``imbalance, gosgd_s, literal_s`` (Alg. 1 to the letter) and
    ``with_ranking_s`` (the balancer counts what ranking takes).
    """
    return sweep(
        "Figure 12", _balanced, grid(imbalance=IMBALANCES), FIG12, shared={"epochs": epochs}
    )


def _balanced(imbalance: float, epochs: int, **_: object) -> dict[str, float]:
    one = paper_testbed().deployment(
        MODELS[0], ("cpu",) * 4, slower=(1.0, 1.0, imbalance, imbalance)
    )
    found = {"gosgd_s": total_s(one.course(epochs))}
    for balancer in BALANCERS:
        found[f"{balancer}_s"] = total_s(one.course(epochs, one.aggregating(balancer=balancer)))
    return found


def explanations() -> pl.DataFrame:
    """What each explanation of the speed-up predicts beside it.

    A row per explanation and claim: ``explanation, claim, role, ours, paper``.
    """
    schema = {
        **dict.fromkeys(("explanation", "claim", "role"), pl.String),
        **dict.fromkeys(("ours", "paper"), pl.Float64),
    }
    return sweep("Explanations", _predicted, grid(explanation=calibration.EXPLANATIONS), schema)


def _predicted(explanation: str, **_: object) -> list[dict[str, object]]:
    testbed = calibration.EXPLANATIONS[explanation].testbed(Constants.load(explanation))
    return [
        {
            "claim": claim,
            "role": "fitted" if claim == calibration.FITTED_ON else "predicted",
            "ours": ours,
            "paper": paper,
        }
        for claim, (ours, paper) in calibration.predicted(testbed).items()
    ]


@dataclass(frozen=True)
class _Setting:
    """All that the mean speed-up follows from."""

    constants: Constants = field(default_factory=Constants.load)
    assumed: Mapping[str, Any] = field(default_factory=lambda: STATED["assumed"])
    epochs: int = EPOCHS
    deployments: Sequence[int] = DEPLOYMENTS
    uplink_mbps: float = UPLINK_MBPS
    seed: int = LOAD_SEED  # of what co-runs

    def assuming(self, **assumed: Any) -> _Setting:
        """The setting with other assumptions."""
        return replace(self, assumed={**self.assumed, **assumed})

    def speedups(self) -> list[float]:
        testbed = Testbed(self.constants, {**STATED, "assumed": self.assumed})
        found = speedups(
            testbed,
            self.epochs,
            deployments=self.deployments,
            uplink_mbps=self.uplink_mbps,
            seed=self.seed,
        )
        return list(found.values())


ASSUMED = {
    "points_per_platform": "points on each platform",
    "backward_over_forward": "backward over forward pass",
    "sustained_share": "share of the peak sustained",
    "operations_per_s": "operations/s in aggregating",
    "overhead_ms": "overhead of a transmission, ms",
    "window_s": "window of contention, s",
}
"""Of the testbed's assumptions those that are varied by a factor."""


def _varied(factor: float) -> dict[str, tuple[str, _Setting]]:
    """Value and setting of each number, times a factor, all else unchanged."""
    stands = _Setting()
    found = {}
    for name, what in ASSUMED.items():
        value = factor * stands.assumed[name]
        value = int(value) if name == "points_per_platform" else value
        found[what] = f"{value:,g}", stands.assuming(**{name: value})
    larger = [round(factor * count) for count in DEPLOYMENTS[1:]]
    epochs, uplink_mbps = round(factor * EPOCHS), factor * UPLINK_MBPS
    intensity, host_ms = (
        factor * one for one in (stands.constants.intensity, stands.constants.host_ms)
    )
    return found | {
        "platforms of the larger deployments": (
            ", ".join(map(str, larger)),
            replace(stands, deployments=(DEPLOYMENTS[0], *larger)),
        ),
        "uplink, Mbit/s": (f"{uplink_mbps:,g}", replace(stands, uplink_mbps=uplink_mbps)),
        "epochs": (str(epochs), replace(stands, epochs=epochs)),
        "co-runners' intensity": (
            f"{intensity:g}",
            replace(stands, constants=replace(stands.constants, intensity=intensity)),
        ),
        "host, ms a sample (fitted)": (
            f"{host_ms:g}",
            replace(stands, constants=replace(stands.constants, host_ms=host_ms)),
        ),
    }


def _choices() -> dict[str, tuple[str, _Setting]]:
    """Value and setting of each choice made otherwise."""
    stands = _Setting()
    dealt = stands.assuming(points_per_platform=None)
    return {
        "peers of each platform (4)": ("4", stands.assuming(peers=4)),
        "peers of each platform (all)": ("all", stands.assuming(peers=None)),
        "data dealt out once": ("50,000 in all", dealt),
        "data dealt out once, all peers": ("50,000 in all", dealt.assuming(peers=None)),
        "co-runners drawn again": (f"seed {LOAD_SEED + 1}", replace(stands, seed=LOAD_SEED + 1)),
        "co-runners drawn a third time": (
            f"seed {LOAD_SEED + 2}",
            replace(stands, seed=LOAD_SEED + 2),
        ),
    }


SENSITIVITY = {
    "number": pl.String,
    "factor": pl.Float64,
    "value": pl.String,
    **dict.fromkeys(("speedup", "least", "most"), pl.Float64),
}


def sensitivity(processes: int | None = None) -> pl.DataFrame:
    """Mean speed-up at half and at double what is assumed, and with other choices.

    Everything else stays unchanged, also the fitted constant, which is varied, too. Of the
    co-runners only their intensity and their draw are: not their pauses, sizes and weights.

    A row per number and factor, and per choice (whose ``factor`` is null): ``number, factor,
    value`` (as text; of deployments it is several) and ``speedup``, the mean over the settings,
    with the ``least`` and the ``most`` of them.
    """
    numbers = list(_varied(1.0))
    points = [{"factor": 1.0, "number": numbers[0]}, *grid(factor=(0.5, 2.0), number=numbers)]
    points += [{"factor": None, "number": number} for number in _choices()]
    return sweep("Sensitivity", _gains, points, SENSITIVITY, processes=processes, then=_beside)


def _gains(number: str, factor: float | None, **_: object) -> dict[str, object]:
    value, setting = (_choices() if factor is None else _varied(factor))[number]
    gains = setting.speedups()
    return {"value": value, "speedup": fmean(gains), "least": min(gains), "most": max(gains)}


def _beside(frame: pl.DataFrame) -> pl.DataFrame:
    """Beside each number's half and double the unchanged setting, a row for all."""
    stands = {number: value for number, (value, _) in _varied(1.0).items()}
    each = pl.DataFrame({"number": list(stands), "value": list(stands.values())})
    unvaried = frame.filter(factor=1.0).drop("number", "value").join(each, how="cross")
    varied = frame.filter(pl.col("factor").is_null() | (pl.col("factor") != 1))
    whole = pl.concat([varied, unvaried.select(frame.columns)])
    return whole.sort(pl.col("number").cast(pl.Enum([*stands, *_choices()])), "factor")
