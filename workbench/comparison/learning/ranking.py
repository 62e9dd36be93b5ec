"""Ranking of trained methods by their virtual time to a loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from workbench.comparison.learning.task import CURVE
from workbench.comparison.methods.method import EQUAL
from workbench.training.objective import CLASSES, Objective
from workbench.utils.numbers import bytes_as_text, percent, three_digits

IMPROVEMENT = 0.9
"""Share of the improvement of the best SGD at which the default target lies."""

PARTS = (1 / 8, 1 / 4, 1 / 2, 1)
"""Shares of the training time at which `TrainedMethods.over_time` gives the metric."""

EVALUATIONS = {"method": pl.String, "learning_rate": pl.Float64, "seed": pl.Int64, **CURVE}
KEYS = ["method", "learning_rate"]
ROW = (*KEYS, "system", "update", "samples_share", "cut_short", "reason")
SUMMARY = {
    "method": pl.String,
    "system": pl.String,
    "update": pl.String,
    "samples_share": pl.Float64,
    "learning_rate": pl.Float64,
    "seeds": pl.Int64,
    "reached": pl.Int64,
    **{f"to_loss_s{suffix}": pl.Float64 for suffix in ("", "_min", "_max")},
    "to_loss_bytes": pl.Float64,
    "to_loss_samples": pl.Float64,
    "end_s": pl.Float64,
    "end_loss": pl.Float64,
    **{f"end_metric{suffix}": pl.Float64 for suffix in ("", "_min", "_max")},
    "cut_short": pl.Boolean,
    "reason": pl.String,
}


@dataclass(frozen=True, eq=False)
class TrainedMethods:
    """Evaluations and ranking of trained methods.

    Attributes
    ----------
    evaluations
        ``method, learning_rate, seed, at_s, bytes, samples, loss``: virtual seconds; bytes over all
        links and samples learnt from until then; loss on the test samples. The last column is the
        metric on these that the objective shows, by its name, such as ``top1``, a fraction.
    summary
        A row for each method, at its best learning rate; the first to reach the target loss comes
        first. ``to_loss_s`` is the time of the first evaluation at or below that loss, as a mean
        over seeds with ``_min`` and ``_max``; ``to_loss_bytes`` and ``to_loss_samples`` are means.
        All are null unless every seed ``reached`` the loss. Columns ``end_`` are the last
        evaluation's. ``cut_short`` is a method that had learnt for the most epochs before its time
        was over. Methods that were not trained come last, with a ``reason``.
    target_loss
        Test loss by which methods are ranked.
    interrupted
        Whether Ctrl-C ended the training.
    objective
        Objective of the training.
    seconds
        Virtual seconds for which each method ran.
    """

    evaluations: pl.DataFrame
    summary: pl.DataFrame
    target_loss: float
    interrupted: bool = False
    objective: Objective = CLASSES
    seconds: float = 0.0

    @property
    def over_time(self) -> pl.DataFrame:
        """Metric of each method after parts of the time, or loss if there is none; seeds' means.

        Columns are ``method`` and one for each of `PARTS` of the seconds, such as ``"1.25 s"``.
        """
        measure = self.objective.shown or "loss"
        best = self.evaluations.join(self.summary, on=KEYS, how="semi", maintain_order="left")
        frame = self.summary.filter(pl.col("reason").is_null()).select("method")
        for part in PARTS if len(frame) else ():
            by_then = best.filter(pl.col("at_s") <= part * self.seconds * (1 + 1e-9))
            newest = by_then.group_by("method", "seed", maintain_order=True).last()
            mean = newest.group_by("method").agg(pl.col(measure).mean())
            name = f"{three_digits(part * self.seconds)} s"
            frame = frame.join(mean.rename({measure: name}), on="method", how="left")
        return frame

    def __str__(self) -> str:
        ranked = self.summary.filter(pl.col("to_loss_s").is_not_null())
        target = f"a test loss of {self.target_loss:.3g}"
        if ranked.is_empty():
            return f"No method reached {target} with every seed."
        first = ranked.row(0, named=True)
        if first["to_loss_s"] == 0:
            return (
                f"The first weights have {target} already: no method has to learn anything for it. "
                "Ask for a lower loss, or train more or with a smaller learning rate."
            )
        low_s, high_s = first["to_loss_s_min"], first["to_loss_s_max"]
        spread = f" ({three_digits(low_s)} to {three_digits(high_s)})" if first["seeds"] > 1 else ""
        part = first["samples_share"]
        share = f", which learns from {percent(part)} of the samples," if part < 1 else ""
        sentences = [
            f"{first['method']}{share} reaches {target} first, in "
            f"{three_digits(first['to_loss_s'])}"
            f"{spread} virtual seconds, with {bytes_as_text(first['to_loss_bytes'])} sent."
        ]
        others = ranked.filter(pl.col("system") != first["system"])
        if len(others):
            name, seconds = others.select("method", "to_loss_s").row(0)
            sentences.append(
                f"{name} takes {three_digits(seconds / first['to_loss_s'])} x as long."
            )
        return " ".join(sentences)


def summary(
    evaluations: pl.DataFrame, rows: Sequence[Mapping[str, Any]], target_loss: float
) -> pl.DataFrame:
    """Rank methods by their time to a loss, each at its best learning rate."""
    training, at_s, metric = [*KEYS, "seed"], pl.col("at_s"), pl.col("metric")
    met = evaluations.filter(pl.col("loss") <= target_loss)
    met = met.group_by(training, maintain_order=True).first()
    ends = evaluations.group_by(training, maintain_order=True).last()
    reached = met.group_by(KEYS, maintain_order=True).agg(
        reached=pl.len().cast(pl.Int64),
        to_loss_s=at_s.mean(),
        to_loss_s_min=at_s.min(),
        to_loss_s_max=at_s.max(),
        to_loss_bytes=pl.col("bytes").mean(),
        to_loss_samples=pl.col("samples").mean(),
    )
    ended = ends.group_by(KEYS, maintain_order=True).agg(
        seeds=pl.len().cast(pl.Int64),
        end_s=at_s.mean(),
        end_loss=pl.col("loss").mean(),
        end_metric=metric.mean(),
        end_metric_min=metric.min(),
        end_metric_max=metric.max(),
    )
    to_loss = [name for name in SUMMARY if name.startswith("to_loss")]
    own = {name: kind for name, kind in SUMMARY.items() if name in ROW}
    return (
        pl.DataFrame(rows, schema=own)
        .join(ended, on=KEYS, how="left", maintain_order="left")
        .join(reached, on=KEYS, how="left", maintain_order="left")
        .with_columns(
            pl.when(pl.col("seeds").is_not_null()).then(pl.col("reached").fill_null(0)),
            pl.when(pl.col("reached") == pl.col("seeds")).then(pl.col(to_loss)),
        )
        .sort(
            pl.col("reason").is_not_null(),
            pl.col("to_loss_s").round_sig_figs(9),
            pl.col("end_loss"),
            nulls_last=True,
            maintain_order=True,
        )
        .unique("method", keep="first", maintain_order=True)
        .select(*SUMMARY)
    )


def named(frame: pl.DataFrame, objective: Objective) -> pl.DataFrame:
    """Name the columns of the metric after it; drop them if the objective shows none."""
    if objective.shown is None:
        return frame.select(pl.exclude("^(end_)?metric.*$"))
    return frame.rename(lambda column: column.replace("metric", str(objective.shown)))


def default_target(evaluations: pl.DataFrame, rows: Sequence[Mapping[str, Any]]) -> float:
    """Loss after `IMPROVEMENT` of the improvement of the best SGD on all samples.

    If no such method is trained, that of the best method. Losses are means over seeds.
    """
    if evaluations.is_empty():
        return 0.0
    whole = {
        row["method"] for row in rows if row["update"] == EQUAL and row.get("samples_share") == 1
    }
    of_sgd = evaluations.filter(pl.col("method").is_in(whole))
    first, least = pl.col("loss").first(), pl.col("loss").min()
    by_method = (
        (evaluations if of_sgd.is_empty() else of_sgd)
        .group_by([*KEYS, "seed"], maintain_order=True)
        .agg(first=first, least=least)
        .group_by(KEYS, maintain_order=True)
        .agg(pl.col("first", "least").mean())
    )
    best = by_method.sort("least", maintain_order=True).row(0, named=True)
    return float(best["first"] - IMPROVEMENT * (best["first"] - best["least"]))
