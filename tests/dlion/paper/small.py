"""Frames of all experiments, as at scale smoke but of fewer and shorter trainings; made once."""

from __future__ import annotations

from functools import cache

import polars as pl
import pytest

from workbench.dlion.paper import experiments
from workbench.dlion.paper.experiments import controllers, scales, trainings
from workbench.dlion.paper.testbed import CANDIDATES, Learner
from workbench.experiments import Scaled

LEARNER = Learner("cipher_small", "cipher", stands_for=200.0, local_batch=2, learning_rate=0.1)
MOBILE = LEARNER._replace(timed="mobilenet_v1", stands_for=1500.0)
TRAINED = (
    *("fig5", "fig7", "fig9", "fig11", "fig12", "fig13", "fig14", "fig15", "fig16", "fig17"),
    *("fig18", "fig21", "techniques", "weightings", "all_systems", "scaling", "explanations"),
    *("candidates", "failures"),
)
CONTROLLERS = ("fig6", "fig8", "fig19", "fig20")
COMPUTED = ("table1", "table2", "table3")


def smaller(patch: pytest.MonkeyPatch) -> None:
    """Few samples, few iterations, one environment for combinations."""
    for name, value in {
        "LEARNERS": LEARNER,
        "MOBILE_LEARNERS": MOBILE,
        "SAMPLES": 60,
        "TEST_SAMPLES": 10,
        "EVALUATE_EVERY": 2,
        "ENVIRONMENTS": ("homo_a",),
        "LARGEST": 7,
    }.items():
        patch.setattr(scales, name, Scaled(value, value, value))
    patch.setattr(controllers, "FIG8_S", 3200.0)
    first = next(iter(CANDIDATES))
    patch.setattr(trainings, "CANDIDATES", {first: CANDIDATES[first]})


@cache
def frame(name: str) -> pl.DataFrame:
    """An experiment's frame."""
    with pytest.MonkeyPatch.context() as patch:
        smaller(patch)
        made: pl.DataFrame = getattr(experiments, name)(*(() if name in COMPUTED else ("smoke",)))
    return made
