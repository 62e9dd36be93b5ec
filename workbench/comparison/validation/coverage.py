"""Intervals of predictions from the errors of corpora, and how often they hold on other rows.

They are of ratios of measured over predicted seconds, of rows that no constant was fitted on. Rows
are held out by halves, by the hash of their keys: each half is judged by the interval of the other.
Corpora of a kind differ in size, so each counts alike, and so do the rows of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from workbench.comparison.intervals import Errors
from workbench.comparison.validation.against import judged
from workbench.comparison.validation.corpus import Constants, Corpus, Values

LEVEL = 0.9
"""Share of measured times within an interval, and of pairs a margin apart that are in order."""


def ratios(
    corpora: Mapping[str, tuple[Corpus, pl.DataFrame]], constants: Mapping[str, Constants]
) -> pl.DataFrame:
    """Rows that no constant was fitted on: ``kind, corpus, model, half, log``.

    ``log`` is that of measured over predicted seconds by the constants of each corpus; ``model`` is
    one on one kind of machine, as in `Corpus.alike`.
    """
    frames = []
    for name, (corpus, rows) in corpora.items():
        frame = judged(corpus, rows, constants[name])
        frames.append(
            rows.select(
                "role",
                "half",
                kind=pl.lit(corpus.kind),
                corpus=pl.lit(name),
                model=pl.concat_str(corpus.alike, separator=", "),
                log=(frame["measured_s"] / frame["predicted_s"]).log(),
            ).filter(role="predict", kind=corpus.kind or None)
        )
    return pl.concat(frames).select("kind", "corpus", "model", "half", "log")


def errors(ratios: pl.DataFrame, level: float = LEVEL) -> Errors:
    """Interval and margin of one kind's rows."""
    margin = quantile(list(_pairs(ratios).values()), level)
    return Errors(*map(float, np.exp([*interval(ratios, level), margin])))


def interval(ratios: pl.DataFrame, level: float = LEVEL) -> tuple[float, float]:
    """Lowest and highest logarithm; as much is left out below as above.

    They hold for another row with a probability of at least `level` if that is like these (split
    conformal prediction, Vovk et al. 2005): the other row is the last of n + 1, so a share q of all
    is a share q (n + 1) / n of the n that are known.
    """
    groups = ratios.group_by("corpus", maintain_order=True)
    rows = [group["log"].to_numpy() for _, group in groups]
    share = min(1.0, (1 + level) / 2 * (len(ratios) + 1) / len(ratios))
    return -quantile([-logs for logs in rows], share), quantile(rows, share)


def quantile(corpora: Sequence[Values], share: float) -> float:
    """The least value that this share of values does not exceed, where each corpus counts alike."""
    values = np.concatenate(corpora)
    weights = np.concatenate([np.full(len(corpus), 1 / len(corpus)) for corpus in corpora])
    return float(np.quantile(values, share, weights=weights, method="inverted_cdf"))


def held_out(ratios: pl.DataFrame, level: float = LEVEL) -> pl.DataFrame:
    """What holds on each half by the errors of the other: ``kind, corpus, rows, within, in order``.

    ``within`` is the percentage of rows in the interval, ``in order`` that of pairs of one model
    that would be in order if they were predicted a margin apart. In a kind's last row, ``all``,
    corpora count alike.
    """
    table: list[dict[str, Any]] = []
    for (kind,), rows in ratios.group_by("kind", maintain_order=True):
        by_half = {half: errors(rows.filter(half=1 - half), level) for half in (0, 1)}
        shares = []
        for (corpus,), own in rows.group_by("corpus", maintain_order=True):
            within, in_order = [], []
            for half, found in by_half.items():
                low, high, margin = np.log(found)
                judged = own.filter(half=half)
                within.append(judged["log"].is_between(low, high).to_numpy())
                in_order += [pairs <= margin for pairs in _pairs(judged).values()]
            shares.append([100 * float(np.concatenate(each).mean()) for each in (within, in_order)])
            table.append({"kind": kind, "corpus": corpus, "rows": len(own), "shares": shares[-1]})
        mean = np.mean(shares, axis=0).tolist()
        table.append({"kind": kind, "corpus": "all", "rows": len(rows), "shares": mean})
    names = {"within": pl.col("shares").list.get(0), "in order": pl.col("shares").list.get(1)}
    return pl.DataFrame(table).with_columns(**names).drop("shares")


def new_models(ratios: pl.DataFrame, level: float = LEVEL) -> pl.DataFrame:
    """Percentage of rows in the interval of all other models of their kind, for ``all`` the mean.

    Rows of a model err alike, so another model is harder to meet than another row.
    """
    judged = []
    for (kind, corpus, model), own in ratios.group_by("kind", "corpus", "model"):
        is_own = (pl.col("corpus") == corpus) & (pl.col("model") == model)
        low, high = interval(ratios.filter(~is_own, kind=kind), level)
        judged.append(own.with_columns(inside=100.0 * pl.col("log").is_between(low, high)))
    inside = pl.col("inside").mean().alias("new model")
    by_corpus = pl.concat(judged).group_by("kind", "corpus").agg(inside)
    mean = by_corpus.group_by("kind").agg(pl.lit("all").alias("corpus"), pl.col("new model").mean())
    return pl.concat([by_corpus, mean])


def _pairs(ratios: pl.DataFrame) -> dict[str, Values]:
    """Differences of two rows of a model, each pair in both orders, by corpus."""
    pairs: dict[str, list[Values]] = {}
    for (corpus, _), group in ratios.group_by("corpus", "model", maintain_order=True):
        logs = group["log"].to_numpy()
        apart = (logs[:, None] - logs[None, :])[~np.eye(len(logs), dtype=bool)]
        pairs.setdefault(str(corpus), []).append(apart)
    return {corpus: np.concatenate(models) for corpus, models in pairs.items()}
