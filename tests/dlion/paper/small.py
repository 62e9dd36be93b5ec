"""Frames of all figures, as at scale smoke but of smaller trainings; made once."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

import polars as pl

from workbench import systems
from workbench.dlion.costs.environments import ENVIRONMENTS
from workbench.dlion.paper import controllers
from workbench.dlion.paper.cases import Learning
from workbench.dlion.paper.testbed import Learner
from workbench.experiments import Scaled

LEARNER = Learner("cipher_small", "cipher", stands_for=200.0, local_batch=2, learning_rate=0.1)
MOBILE = LEARNER._replace(timed="mobilenet_v1", stands_for=1500.0)
FIGURES = systems.figures("dlion")
TRAINED = [name for name, figure in FIGURES.items() if "usual_seeds" in figure.sizes]
CONTROLLERS = ("fig6", "fig8", "fig19", "fig20")
LONGER = partial(
    controllers.decided, "Figure 8", "links", ENVIRONMENTS["hetero_net_a"], 3200.0, "constant"
)


def smaller(learning: Learning) -> Learning:
    learner = MOBILE if learning.learner.timed == MOBILE.timed else LEARNER
    return learning._replace(learner=learner, samples=60, test_samples=10, evaluate_every=2)


@cache
def frame(name: str) -> pl.DataFrame:
    figure = FIGURES[name]
    sizes = dict(figure.sizes)
    if "learning" in sizes:
        sizes["learning"] = Scaled(*[smaller(sizes["learning"].smoke)] * 3)
    compute = LONGER if name == "fig8" else figure.compute
    return replace(figure, compute=compute, sizes=sizes).frame("smoke")
