"""Figs. 5, 7 and 9: growth of the global batch, Max N alone, and knowledge transfer."""

from __future__ import annotations

from functools import partial, wraps
from itertools import pairwise
from typing import Any

import altair as alt
import polars as pl

from workbench.dlion.algorithms.knowledge_transfer import Transfer
from workbench.dlion.paper.accuracy import (
    by,
    learnt_from,
    of_trainings,
    percents,
    percents_by,
    seconds_text,
    seconds_to,
    slashed,
    target_of,
)
from workbench.dlion.paper.cases import TIMED, Case
from workbench.dlion.paper.titles import bars, curves, learnt_title
from workbench.dlion.paper.trainings import SIZES, Group, Learnt, trained
from workbench.reproduction.claims import Answer

ALIKE = 0.02
"""Fractions of samples that accuracies may differ by and be alike."""

EARLY = 0.2
"""Share of a training that is its early phase (Fig. 9c)."""

USUAL = Transfer()
TRANSFERS = tuple(
    Group(cases, {"panel": panel})
    for panel, cases in {
        "period": (Case(period=10), Case(), Case(period=1000), Case(early=500)),
        "whom": (Case(techniques=("batching", "links")), Case(whom="worst"), Case()),
        "lambda": (Case(share=0.0), Case(share=0.5), Case(), Case(share=1.0)),
    }.items()
)


@wraps(trained, assigned=())  # with the same parameters
def transfers(*cases: Any, **sizes: Any) -> pl.DataFrame:
    """As `trained`; where a case leaves period or share as they are, these are the usual ones."""
    return trained(*cases, **sizes).with_columns(
        period=pl.when(pl.col("early").is_null()).then(pl.col("period").fill_null(USUAL.period)),
        share=pl.col("share").fill_null(USUAL.share),
    )


def draw_transfers(frame: pl.DataFrame) -> alt.VConcatChart:
    """Knowledge transfer: seconds by period, and accuracy over time by whom and by lambda."""
    settings = {
        "period": pl.format("every {}", "period").fill_null("early and frequent"),
        "whom": pl.when(pl.col("techniques").is_not_null())
        .then(pl.lit("no transfer"))
        .otherwise(pl.format("best to {}", pl.col("whom").fill_null("all"))),
        "lambda": pl.format("lambda {}", "share"),
    }
    periods, whom, lambdas = (
        frame.filter(panel=panel).with_columns(setting=of) for panel, of in settings.items()
    )
    return alt.vconcat(
        _until(periods),
        curves(whom, "setting").properties(title="Whom to send the best weights"),
        curves(lambdas, "setting").properties(title="How far towards the best weights"),
        title=learnt_title("Direct knowledge transfer, Homo A", frame, "mean"),
    ).resolve_scale(color="independent", shape="independent", strokeDash="independent")


def _until(periods: pl.DataFrame) -> alt.LayerChart:
    target = target_of(periods)
    rows = [
        (name, seconds_to(part, target))
        for (name,), part in periods.group_by("setting", maintain_order=True)
    ]
    schema = {"setting": pl.String, "seconds": pl.Float64}
    rounded = pl.col("seconds").round(0).cast(pl.Int64)
    drawn = pl.DataFrame(rows, schema, orient="row").with_columns(
        text=pl.format("{} s", rounded).fill_null("never")
    )
    base = alt.Chart(drawn).encode(
        y=alt.Y("setting:N", sort=None, title="iterations"),
        x=alt.X("seconds:Q", title=f"virtual seconds until {100 * target:.0f} %"),
    )
    texts = base.mark_text(align="left", dx=3).encode(text="text:N")
    return (base.mark_bar() + texts).properties(height=16 * len(rows))


@of_trainings
def _early(fig5: pl.DataFrame) -> Answer | None:
    found = by(fig5.sort("growth_epochs"), "growth_epochs")
    late = [value for start, value in found.items() if isinstance(start, int) and start >= 2]
    if not late or not {0, 1} <= found.keys():
        return None
    early = [found[0], found[1]]
    holds = max(early) < min(late) and max(late) - min(late) <= ALIKE
    return Answer(holds, f"{percents_by(found, 'first epoch')}, {learnt_from(fig5)}")


@of_trainings
def _larger_n(fig7: pl.DataFrame) -> Answer | None:
    found = by(fig7.sort("n"), "n")
    if len(found) < 2:
        return None
    holds = all(after > before for before, after in pairwise(found.values()))
    return Answer(holds, f"{percents_by(found, 'N')}, {learnt_from(fig7)}")


@of_trainings
def _period(fig9: pl.DataFrame) -> Answer | None:
    frame = fig9.filter(pl.col("early").is_null(), panel="period").sort("period")
    target = target_of(frame)
    found = {
        period: seconds_to(part, target)
        for (period,), part in frame.group_by("period", maintain_order=True)
    }
    if 100 not in found:
        return None
    middle = found[100]
    others = [seconds for period, seconds in found.items() if period != 100]
    holds = middle is not None and all(one is None or middle < one for one in others)
    shown = f"{seconds_text(found.values())} by period {slashed(found)}"
    return Answer(holds, f"until {100 * target:.0f} %: {shown}, {learnt_from(fig9)}")


@of_trainings
def _whom(fig9: pl.DataFrame) -> Answer | None:
    frame = fig9.filter(panel="whom").with_columns(
        who=pl.when(pl.col("techniques").is_not_null())
        .then(pl.lit("none"))
        .otherwise(pl.col("whom").fill_null("all"))
    )
    found = by(frame, "who")
    if not {"all", "worst", "none"} <= found.keys():
        return None
    holds = found["all"] > found["worst"] > found["none"]
    return Answer(holds, f"{percents_by(found, 'whom')}, {learnt_from(fig9)}")


def _by_lambda(fig9: pl.DataFrame) -> dict[object, float]:
    frame = fig9.filter(panel="lambda").sort("share")
    found = by(frame, "share")
    return found if {0.0, 1.0} <= found.keys() and len(found) > 2 else {}


@of_trainings
def _no_lambda(fig9: pl.DataFrame) -> Answer | None:
    """Whether a lambda of 0, no transfer at all, ends lowest."""
    if not (found := _by_lambda(fig9)):
        return None
    holds = all(found[0.0] < top1 for share, top1 in found.items() if share)
    return Answer(holds, f"{percents_by(found, 'lambda')}, {learnt_from(fig9)}")


@of_trainings
def _lambda_1(fig9: pl.DataFrame) -> Answer | None:
    """Whether a lambda of 1 is ahead of all at a fifth of the time, and not at the end."""
    if not (found := _by_lambda(fig9)):
        return None
    frame = fig9.filter(panel="lambda").sort("share")
    at_s = frame.filter(pl.col("at_s") <= EARLY * pl.col("seconds"))["at_s"].max()
    early = frame.filter(at_s=at_s).group_by("share", maintain_order=True)
    ahead = dict(early.agg(pl.col("top1").mean()).drop_nulls().iter_rows())
    if ahead.keys() != found.keys():
        return None
    holds = max(ahead, key=ahead.__getitem__) == 1 and max(found, key=found.__getitem__) != 1
    shown = f"{percents(ahead.values())} % early, {percents_by(found, 'lambda')} at the end"
    return Answer(holds, f"{shown}, {learnt_from(fig9)}")


FIG5 = Learnt(
    id="fig5",
    compute=partial(
        trained, "Figure 5", tuple(Case(growth_epochs=start) for start in (0, 1, 2, 4))
    ),
    chart=partial(
        bars, "growth_epochs", "doubling from epoch", "Doubling the global batch from an epoch on"
    ),
    answers={"dlion.fig5.early": _early},
)

FIG7 = Learnt(
    id="fig7",
    compute=partial(trained, "Figure 7", tuple(Case(n=n) for n in (1.0, 10.0, 50.0, 100.0))),
    chart=partial(bars, "n", "N of Max N, %", "The largest gradients alone"),
    answers={"dlion.fig7.max_n": _larger_n},
)

FIG9 = Learnt(
    id="fig9",
    sizes={**SIZES, "learning": TIMED},
    compute=partial(transfers, "Figure 9", TRANSFERS),
    chart=draw_transfers,
    answers={
        "dlion.fig9a.period": _period,
        "dlion.fig9b.whom": _whom,
        "dlion.fig9c.none": _no_lambda,
        "dlion.fig9c.replace": _lambda_1,
    },
)
