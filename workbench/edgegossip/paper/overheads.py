"""What EdgeGossip's own work takes in a training: aggregating once, ranking before each epoch.

By the cost model's course, which the simulation equals where a platform has at least as many
aggregated points as classes; fewer are not made, since none holds two classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import polars as pl

from workbench.edgegossip.costs.course import selecting_share
from workbench.edgegossip.paper.simulations import Case, deployed

_SCHEMA = {
    "ratio": pl.Float64(),
    "imbalance": pl.Float64(),
    "seed": pl.Int64(),
    "aggregating_s": pl.Float64(),
    "ranking_s": pl.Float64(),
    "slowest_ranking_percent": pl.Float64(),
}
_KEY = ("ratio", "imbalance", "seed")


def with_overheads(frame: pl.DataFrame, cases: Sequence[Case]) -> pl.DataFrame:
    """Add to trainings what aggregating and ranking take in them.

    Parameters
    ----------
    frame
        As `workbench.edgegossip.paper.trainings.trainings` returns it.
    cases
        What was trained; no two of the same ratio and imbalance.

    Returns
    -------
    polars.DataFrame
        The frame with ``aggregating_s`` (once, longest of all platforms), ``ranking_s`` (mean of a
        platform's epochs after the first) and ``slowest_ranking_percent``, what ranking takes of
        the time at work on the platforms whose t_0 is the longest; null of GoSGD.
    """
    by_case = {(one.ratio, max(one.slower or (1.0,))): one for one in cases}
    ours = frame.filter(method="edgegossip")
    trained = ours.group_by(*_KEY, "train_samples", maintain_order=True).agg(pl.col("epoch").max())
    rows = [
        (ratio, imbalance, seed, *_overheads(by_case[ratio, imbalance], seed, points, epochs))
        for ratio, imbalance, seed, points, epochs in trained.iter_rows()
    ]
    added = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
    return frame.join(added, on=_KEY, how="left", maintain_order="left")


def _overheads(case: Case, seed: int, points: int, epochs: int) -> tuple[float, float, float]:
    deployment = deployed(case._replace(seed=seed), points)
    adds = deployment.aggregating(case.technique, case.ratio)
    platforms = deployment.platforms
    aggregating_s = max(
        one.speed.seconds_for(seconds, 0.0)
        for one, seconds in zip(platforms, adds.generation_s, strict=True)
    )
    later = [one for one in deployment.course(max(epochs, 2), adds) if one.epoch > 1]
    longest_s = max(one.predictor.baseline_s for one in platforms)
    slowest = [one for one in later if platforms[one.node].predictor.baseline_s == longest_s]
    share = selecting_share(slowest, waiting=False)
    return aggregating_s, fmean(one.select_s for one in later), 100 * share
