"""Figs. 5, 7, 9 and 14: the global batch, Max N, knowledge transfer and dynamic batching."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import combinations, pairwise, product

import altair as alt
import polars as pl

from workbench.dlion.algorithms.knowledge_transfer import Transfer
from workbench.dlion.algorithms.weighted_update import WEIGHTINGS
from workbench.dlion.paper.accuracy import by_trainings, final, target_of, usual
from workbench.dlion.paper.cases import (
    LEARNING,
    SIZES,
    TIMED,
    Case,
    accuracy_figure,
    trained,
    training_figure,
)
from workbench.dlion.paper.charts import (
    ENVIRONMENT_TITLES,
    bars,
    curves,
    learnt_title,
    panels,
    seconds_bars,
)
from workbench.dlion.paper.testbed import CPU_ENVIRONMENTS, DYNAMIC
from workbench.figures import parts
from workbench.reproduction.claims import Answer, Cause, paper_values, tolerance
from workbench.reproduction.scales import Scaled
from workbench.reproduction.trainings import Means, mean_of_all, percents, seconds_to, slashed

# --- Fig. 5: when the global batch may grow -------------------------------------------------------

THIRTY_EPOCHS_S = 13_000.0
"""Seconds in which Homo A learns from thirty times the paper's data at its first global batch."""
ALIKE = 0.02
"""Fractions of samples that accuracies may differ by and be alike."""


@by_trainings
def _early(fig5: pl.DataFrame) -> Answer | None:
    """Whether growing from epoch 0 or 1 on is worse than later, which are alike."""
    sizes = (
        fig5.group_by("growth_epochs").agg(pl.col("global_batch").n_unique()).sort("growth_epochs")
    )
    if sizes["global_batch"][-1] == 1:
        latest = sizes["growth_epochs"][-1]
        return Answer(not_run=f"takes trainings in which growth from epoch {latest} on begins")
    top1 = Means.by(final(fig5), "growth_epochs")
    late = [top1[start] for start in top1 if start not in (0, 1)]
    if not late:
        return None
    holds = max(top1[0], top1[1]) < min(late) and max(late) - min(late) <= ALIKE
    return Answer(holds, f"{top1.percents()}, the first epoch")


FIG5 = accuracy_figure(
    id="fig5",
    sizes={
        **SIZES,
        "learning": LEARNING._replace(paper=LEARNING.paper._replace(seconds=THIRTY_EPOCHS_S)),
    },
    compute=partial(
        trained, "Figure 5", tuple(Case(growth_epochs=start) for start in (0, 1, 2, 4))
    ),
    chart=partial(
        bars, "growth_epochs", "doubling from epoch", "Doubling the global batch from an epoch on"
    ),
    answers={"dlion.fig5.early": _early},
)

# --- Fig. 7: Max N alone --------------------------------------------------------------------------


@by_trainings
def _larger_n(fig7: pl.DataFrame) -> Answer | None:
    """Whether accuracy rises with N."""
    top1 = Means.by(final(fig7), "n")
    if len(top1) < 2:
        return None
    holds = all(after > before for before, after in pairwise(top1.values()))
    return Answer(holds, f"{top1.percents()}, N")


FIG7 = accuracy_figure(
    id="fig7",
    compute=partial(trained, "Figure 7", tuple(Case(n=n) for n in (1.0, 10.0, 50.0, 100.0))),
    chart=partial(bars, "n", "N of Max N, %", "The largest gradients alone"),
    answers={"dlion.fig7.max_n": _larger_n},
)

# --- Fig. 9: direct knowledge transfer ------------------------------------------------------------

USUAL = Transfer()
NO_TRANSFER = ("batching", "links")
_TRANSFERS = (
    *(Case(period=10), Case(), Case(period=1000), Case(early=500)),
    *(Case(techniques=NO_TRANSFER), Case(whom="worst")),
    *(Case(share=0.0), Case(share=0.5), Case(share=1.0)),
)
_EVERY, _TO_ALL = usual("period", USUAL.period), usual("whom", USUAL.whom)
_WITH, _SHARE = pl.col("techniques").is_null(), usual("share", USUAL.share)
_ALL_ALONG = pl.col("early").is_null()


def _periods(fig9: pl.DataFrame) -> pl.DataFrame:
    """Trainings that differ in the period alone, with ``setting`` (Fig. 9a)."""
    every = pl.format("every {}", pl.col("period").fill_null(USUAL.period))
    name = pl.when(_ALL_ALONG).then(every).otherwise(pl.lit("early and frequent"))
    return fig9.filter(_WITH & _TO_ALL & _SHARE).with_columns(setting=name)


def _receivers(fig9: pl.DataFrame) -> pl.DataFrame:
    """Trainings that differ in who gets the best weights, with ``setting`` (Fig. 9b)."""
    whom = pl.format("best to {}", pl.col("whom").fill_null(USUAL.whom))
    name = pl.when(_WITH).then(whom).otherwise(pl.lit("no transfer"))
    return fig9.filter(_EVERY & _ALL_ALONG & _SHARE).with_columns(setting=name)


def _shares(fig9: pl.DataFrame) -> pl.DataFrame:
    """Trainings that differ in lambda alone, with ``share`` and ``setting`` (Fig. 9c)."""
    frame = fig9.filter(_WITH & _EVERY & _ALL_ALONG & _TO_ALL)
    share = frame.with_columns(pl.col("share").fill_null(USUAL.share)).sort("share")
    return share.with_columns(setting=pl.format("lambda {}", "share"))


def draw_transfers(frame: pl.DataFrame) -> alt.VConcatChart:
    """Knowledge transfer: seconds by period, and accuracy over time by whom and by lambda."""
    return alt.vconcat(
        seconds_bars({"How often": _periods(frame)}, "setting", ["When to send the best weights"]),
        curves(_receivers(frame), "setting").properties(title="Whom to send the best weights"),
        curves(_shares(frame), "setting").properties(title="How far towards the best weights"),
        title=learnt_title("Direct knowledge transfer, Homo A", frame, "mean"),
    ).resolve_scale(color="independent", shape="independent", strokeDash="independent")


@by_trainings
def _period(fig9: pl.DataFrame) -> Answer | None:
    """Whether the usual period reaches the target sooner than a shorter and a longer one."""
    frame = _periods(fig9).filter(_ALL_ALONG).sort("period", nulls_last=False)
    target = target_of(frame)
    seconds = {
        setting: mean_of_all(seconds_to(part, target).values())
        for (setting,), part in frame.group_by("setting", maintain_order=True)
    }
    middle = f"every {USUAL.period}"
    if middle not in seconds or len(seconds) < 3:
        return None
    middle_s = seconds.pop(middle)
    others = [at_s for at_s in seconds.values() if at_s is not None]
    holds = middle_s is not None and all(middle_s < at_s for at_s in others)
    shown = seconds_text({middle: middle_s, **seconds}.values())
    return Answer(holds, f"until {100 * target:.0f} %: {shown}, {slashed((middle, *seconds))}")


@by_trainings
def _early_and_frequent(fig9: pl.DataFrame) -> Answer | None:
    """Whether frequent transfers at first reach the target as soon as the best period does."""
    frame = _periods(fig9)
    target = target_of(frame)
    seconds = {
        setting: mean_of_all(seconds_to(part, target).values())
        for (setting,), part in frame.group_by("setting", maintain_order=True)
    }
    early_s = seconds.pop("early and frequent", None)
    reached = [at_s for at_s in seconds.values() if at_s is not None]
    if early_s is None or not reached:
        return None
    best_s = min(reached)
    detail = f"until {100 * target:.0f} %: {early_s:.0f} s, the best period {best_s:.0f} s"
    return Answer(early_s - best_s <= tolerance("s", best_s), detail)


def seconds_text(seconds: Iterable[float | None]) -> str:
    """``900/never s``."""
    shown = ("never" if at_s is None else f"{at_s:.0f}" for at_s in seconds)
    return f"{slashed(shown)} s"


@by_trainings
def _whom(fig9: pl.DataFrame) -> Answer:
    """Whether best to all is better than best to worst, and that than no transfer."""
    top1 = Means.by(final(_receivers(fig9)), "setting")
    holds = top1["best to all"] > top1["best to worst"] > top1["no transfer"]
    return Answer(holds, top1.percents())


EARLY = 0.5
"""Share of a training that is its early phase."""


@by_trainings
def _no_lambda(fig9: pl.DataFrame) -> Answer:
    """Whether a lambda of 0, no transfer at all, ends lowest."""
    top1 = Means.by(final(_shares(fig9)), "share")
    holds = all(top1[0.0] < top1[share] for share in (0.5, USUAL.share, 1.0))
    return Answer(holds, f"{top1.percents()}, lambda")


@by_trainings
def _replace(fig9: pl.DataFrame) -> Answer:
    """Whether a lambda of 1 is ahead of all on average early on, and not at the end.

    From one instant to the next accuracies differ by more than between these lambdas.
    """
    frame = _shares(fig9)
    by_then = frame.filter(pl.col("at_s") <= EARLY * pl.col("seconds")).drop_nulls("top1")
    early = Means.by(by_then, "share")
    end = Means.by(final(frame), "share")
    others = (0.0, 0.5, USUAL.share)
    holds = early[1.0] > max(early[share] for share in others) and end[1.0] < max(
        end[share] for share in others
    )
    first = f"{percents(early.values())} on average over the first half"
    return Answer(holds, f"{first}, {end.percents()}, lambda, at the end")


WEIGHTS_ARE_CHEAP = Cause(
    "ours",
    "in the paper frequent transfers take much of the network; here the links of Homo A carry the "
    "weights every 10 iterations beside the gradients, and workers make as many iterations as "
    "with a transfer every 100. A transfer every 1,000 never comes: 1,500 s have 889",
)
FIG9 = accuracy_figure(
    id="fig9",
    sizes={**SIZES, "learning": TIMED},
    compute=partial(trained, "Figure 9", _TRANSFERS),
    chart=draw_transfers,
    answers={
        "dlion.fig9a.period": _period,
        "dlion.fig9a.early": _early_and_frequent,
        "dlion.fig9b.whom": _whom,
        "dlion.fig9c.none": _no_lambda,
        "dlion.fig9c.replace": _replace,
    },
    causes={"dlion.fig9a.period": WEIGHTS_ARE_CHEAP},
)

# --- Fig. 14: dynamic batching and its weights; weightings and all techniques are ours ------------

_CORES = ("homo_a", "hetero_cpu_a", "hetero_cpu_b")
_STEPS = {
    "dynamic_batching": ("neither", "batching"),
    "weighted_update": ("batching", "and weights"),
}
NEITHER, UNWEIGHTED = Case(techniques=("links", "transfer")), Case(weighting="equal")
_VARIANT = (
    pl.when(pl.col("techniques").is_not_null())
    .then(pl.lit("neither"))
    .when(weighting="equal")
    .then(pl.lit("batching"))
    .otherwise(pl.lit("and weights"))
)


def draw_speed_ups(frame: pl.DataFrame) -> alt.FacetChart:
    """Seconds until an accuracy without dynamic batching, without its weights, and with both."""
    placed = frame.with_columns(variant=_VARIANT).partition_by("environment", as_dict=True)
    named = {ENVIRONMENT_TITLES[str(where)]: part for (where,), part in placed.items()}
    title = learnt_title("Dynamic batching and weighted updates", frame)
    saved = paper_values("dlion.fig14.{variant}.{name}")
    variants = {name: after for name, (_, after) in _STEPS.items()}
    stated = parts.titled(saved, variant=variants, name=ENVIRONMENT_TITLES)
    return seconds_bars(named, "variant", title, stated)


@by_trainings
def _speed_up(environment: str, before: str, after: str, fig14: pl.DataFrame) -> Answer | None:
    """Seconds saved by a variant over another, until an accuracy that all three reach."""
    frame = fig14.filter(environment=environment).with_columns(variant=_VARIANT)
    variants = ("neither", "batching", "and weights")
    if set(frame["variant"]) < set(variants):
        return None
    target = target_of(frame)
    seconds = {
        name: mean_of_all(seconds_to(frame.filter(variant=name), target).values())
        for name in variants
    }
    shown = seconds_text(seconds.values())
    detail = f"until {100 * target:.0f} %: {shown} (neither/batching/weights)"
    before_s, after_s = seconds[before], seconds[after]
    if before_s is None or after_s is None:
        return Answer(detail=f"not all reach it; {detail}")
    return Answer(100 * (before_s - after_s) / before_s, detail)


FEW_SAMPLES = Cause(
    "data",
    "70 % is out of reach of the available fifth of CIFAR-10. Until the accuracy that all three "
    "trainings reach instead, near their highest, the global batch grows from 192 to 500 samples "
    "at most; the paper's may grow to 5,000",
)
WEIGHTS_SAVE_NOTHING = Cause(
    "ours",
    "not explained: with Eq. 7 as printed the accuracies from 30 to 54 % are on average reached "
    "4 % later than with equal weights",
)
ALIKE_APART = Cause(
    "noise",
    "on equal cores Eq. 7 changes next to nothing, so that two trainings that are alike differ by "
    "this; over the accuracies from 30 to 54 % the mean is 0 %",
)
FIG14 = accuracy_figure(
    id="fig14",
    sizes={**SIZES, "learning": TIMED},
    compute=partial(
        trained,
        "Figure 14",
        [
            case._replace(environment=where)
            for where, case in product(_CORES, (NEITHER, UNWEIGHTED, Case()))
        ],
    ),
    chart=draw_speed_ups,
    answers={
        f"dlion.fig14.{name}.{environment}": partial(_speed_up, environment, before, after)
        for name, (before, after) in _STEPS.items()
        for environment in _CORES
    },
    causes={
        **{f"dlion.fig14.dynamic_batching.{environment}": FEW_SAMPLES for environment in _CORES},
        **{
            f"dlion.fig14.weighted_update.{environment}": WEIGHTS_SAVE_NOTHING
            for environment in _CORES[1:]
        },
        f"dlion.fig14.weighted_update.{_CORES[0]}": ALIKE_APART,
    },
)


def draw_weightings(frame: pl.DataFrame) -> alt.Chart:
    """Accuracy over time by how gradients from unequal batches are weighted."""
    titles = {"equal": "equal (Eq. 4)", "by_samples": "by samples, sum 1"}
    named = pl.col("weighting").replace(titles).fill_null("dynamic (Eq. 7)")
    title = learnt_title("Weights of gradients from unequal batches, Hetero CPU A", frame, "mean")
    drawn = curves(frame.with_columns(named), "weighting")
    return drawn.properties(height=180, title=title)


WEIGHTED = training_figure(
    id="weightings",
    compute=partial(
        trained,
        "Weightings",
        [
            Case(environment="hetero_cpu_a", weighting=None if name == "dynamic" else name)
            for name in WEIGHTINGS
        ],
    ),
    chart=draw_weightings,
)


def draw_techniques(frame: pl.DataFrame) -> alt.FacetChart:
    """Final accuracy of all combinations of the three techniques."""
    chosen = pl.col("techniques").replace({"": "none"}).fill_null("all three")
    drawn = frame.with_columns(chosen=chosen)
    return panels("environment", "chosen", "What each technique is worth", drawn)


def _combinations(*environments: str) -> list[Case]:
    """All eight of the three techniques; None is all three."""
    techniques = ("batching", "links", "transfer")
    some = [chosen for count in range(3) for chosen in combinations(techniques, count)]
    both = product(environments, [*some, None])
    return [Case(environment=where, techniques=chosen) for where, chosen in both]


_FEW = _combinations("homo_a", "hetero_sys_a")
TECHNIQUES = training_figure(
    id="techniques",
    compute=partial(trained, "Techniques"),
    chart=draw_techniques,
    sizes={
        **SIZES,
        "cases": Scaled(smoke=_FEW, default=_FEW, paper=_combinations(*CPU_ENVIRONMENTS, *DYNAMIC)),
    },
)
