"""Answers of the stored results to each of the paper's claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from itertools import pairwise
from math import sqrt
from statistics import fmean, stdev

import polars as pl

from workbench.claims import Answer, Cause, Table, paper_value
from workbench.dlion.paper.frames import ended, final, seconds_to, target_of
from workbench.dlion.paper.testbed import (
    COMPARED_IN,
    LOCAL_BATCH,
    POINTS,
    SECONDS,
    STATED,
    Pace,
    pace,
)

COMPARED = ("baseline", "hop", "gaia", "ako")
PROPORTIONAL = 1.25
"""At most so many times as much for each Mbit/s is proportional."""
ALIKE = 0.02
"""Fractions of samples that accuracies may differ by and be alike."""
FOLLOWS = 0.5
"""Rank correlation from which sizes follow changing cores: they wait for the next timing."""
LEAST_ITERATIONS = 20
"""In fewer, at scale ``smoke``, hardly anybody times batches anew after cores have changed."""


def at_paper_setting(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Rows of a figure at the setting that the paper's claims on it are about: all."""
    del name
    return frame


def of_trainings(answer: Callable[..., Answer | None]) -> Callable[..., Answer | None]:
    """Answer by the trainings that ended well, the last argument."""

    @wraps(answer)
    def checked(*arguments: object, **options: object) -> Answer | None:
        *parts, frame = arguments
        assert isinstance(frame, pl.DataFrame)
        well = ended(frame)
        if well.is_empty():
            return Answer(not_run="rests on trainings that failed")
        failed = len(frame) - len(well)
        try:
            found = answer(*parts, well, **options)
        except KeyError:  # a setting without a row
            if not failed:
                raise
            return Answer(not_run="rests on trainings that failed")
        if found is None or found.ours is None:
            return found
        left_out = f"; left out: {failed} that failed" if failed else ""
        seeds = found.seeds or well["seed"].n_unique()
        detail, caveat = found.detail + left_out, _caveat(well)
        return replace(found, detail=detail, seeds=seeds, caveat=caveat)

    return checked


def spread(values: Sequence[float], unit: str = "points") -> str:
    """A mean's standard error over seeds, or that there is one seed."""
    if len(values) < 2:
        return "one seed"
    return f"± {stdev(values) / sqrt(len(values)):.1f} {unit} over {len(values)} seeds"


def _pairs(frame: pl.DataFrame, environment: str, system: str) -> pl.DataFrame:
    """Final accuracies of DLion and another system, by seed."""
    last = final(frame).filter(environment=environment)
    ours = last.filter(system="dlion").select("seed", ours="top1")
    return last.filter(system=system).select("seed", theirs="top1").join(ours, on="seed")


def gains(frame: pl.DataFrame, environments: Sequence[str], system: str) -> list[float]:
    """By how many percent DLion is more accurate, by seed: means over environments.

    Of the seeds that all environments have.
    """
    found = pl.concat(_pairs(frame, where, system) for where in environments)
    by_seed = found.group_by("seed", maintain_order=True).agg(
        gain=100 * (pl.col("ours") / pl.col("theirs") - 1).mean(), environments=pl.len()
    )
    return by_seed.filter(environments=len(environments))["gain"].to_list()


@of_trainings
def _gain(environment: str, system: str, frame: pl.DataFrame) -> Answer | None:
    where: tuple[str, ...] = (environment,)
    if environment.startswith("mean_of"):
        where = ("homo_a", "hetero_cpu_a", "hetero_cpu_b")
    found = gains(frame, where, system)
    if not found:
        return None
    last = final(frame).filter(pl.col("environment").is_in(where))
    ours, theirs = (
        100 * fmean(last.filter(system=name)["top1"].to_list()) for name in ("dlion", system)
    )
    detail = f"{ours:.1f} against {theirs:.1f} % correct, {spread(found)}, {_learnt(frame)}"
    return Answer.over_seeds(found, detail)


@of_trainings
def _ratio(environment: str, system: str, fig12: pl.DataFrame) -> Answer | None:
    both = _pairs(fig12, environment, system)
    if both.is_empty():
        return None
    ratios = (both["ours"] / both["theirs"]).to_list()
    return Answer.over_seeds(ratios, f"{spread(ratios, 'x')}, {_learnt(fig12)}")


def _learnt(frame: pl.DataFrame) -> str:
    row = frame.row(0, named=True)
    return f"{row['learner']} on {row['train_samples']:,} of {row['dataset']}"


def _caveat(frame: pl.DataFrame) -> str:
    """That the global batch never grew, in a frame from when it grew to 1 % of whatever there was.

    Such a frame does not have its size.
    """
    row = frame.row(0, named=True)
    most = STATED["batches"]["warm_up_limit"] * row["train_samples"]
    grew = "global_batch" in frame.columns or row["stands_for"] != 1 or most > _FIRST_BATCH
    return "" if grew else f"recorded while the global batch never grew beyond {_FIRST_BATCH}"


def _by(frame: pl.DataFrame, column: str) -> dict[object, float]:
    """Mean final accuracy by a column's value."""
    last = final(frame).sort("seed").group_by(column, maintain_order=True)
    return dict(last.agg(pl.col("top1").mean()).iter_rows())


def _slashed(values: Iterable[object]) -> str:
    return "/".join(map(str, values))


def _percents(values: Iterable[float]) -> str:
    return _slashed(f"{100 * value:.1f}" for value in values)


def _shown(found: dict[object, float], axis: str) -> str:
    return f"{_percents(found.values())} % by {axis} {_slashed(found)}"


@of_trainings
def _early(fig5: pl.DataFrame) -> Answer | None:
    found = _by(fig5.sort("growth_epochs"), "growth_epochs")
    early = [found[0], found[1]]
    late = [value for start, value in found.items() if isinstance(start, int) and start >= 2]
    if not late:
        return None
    holds = max(early) < min(late) and max(late) - min(late) <= ALIKE
    return Answer(holds, f"{_shown(found, 'first epoch')}, {_learnt(fig5)}")


@of_trainings
def _larger_n(fig7: pl.DataFrame) -> Answer | None:
    found = _by(fig7.sort("n"), "n")
    if len(found) < 2:
        return None
    holds = all(after > before for before, after in pairwise(found.values()))
    return Answer(holds, f"{_shown(found, 'N')}, {_learnt(fig7)}")


@of_trainings
def _period(fig9: pl.DataFrame) -> Answer:
    frame = fig9.filter(pl.col("early").is_null(), panel="period").sort("period")
    target = target_of(frame)
    found = {
        period: seconds_to(part, target)
        for (period,), part in frame.group_by("period", maintain_order=True)
    }
    middle = found[100]
    others = [seconds for period, seconds in found.items() if period != 100]
    holds = middle is not None and all(one is None or middle < one for one in others)
    shown = f"{_seconds(found.values())} by period {_slashed(found)}"
    return Answer(holds, f"until {100 * target:.0f} %: {shown}, {_learnt(fig9)}")


def _seconds(values: Iterable[float | None]) -> str:
    return _slashed("never" if one is None else f"{one:.0f}" for one in values) + " s"


@of_trainings
def _whom(fig9: pl.DataFrame) -> Answer:
    frame = fig9.filter(panel="whom").with_columns(
        who=pl.when(pl.col("techniques").is_not_null())
        .then(pl.lit("none"))
        .otherwise(pl.col("whom").fill_null("all"))
    )
    found = _by(frame, "who")
    holds = found["all"] > found["worst"] > found["none"]
    return Answer(holds, f"{_shown(found, 'whom')}, {_learnt(fig9)}")


@of_trainings
def _speed_up(environment: str, fig14: pl.DataFrame, *, weights: bool) -> Answer | None:
    """Seconds saved by dynamic batching without its weights, or by these on top of it."""
    frame = fig14.filter(environment=environment)
    without = frame.filter(pl.col("techniques").is_not_null())
    unweighted = frame.filter(weighting="equal")
    whole = frame.filter(pl.col("techniques").is_null() & pl.col("weighting").is_null())
    if any(one.is_empty() for one in (without, unweighted, whole)):
        return None
    target = target_of(frame)
    seconds = [seconds_to(one, target) for one in (without, unweighted, whole)]
    none_s, dynamic_s, weighted_s = seconds
    detail = f"until {100 * target:.0f} %: {_seconds(seconds)}"
    before, after = (dynamic_s, weighted_s) if weights else (none_s, dynamic_s)
    if before is None or after is None:
        return Answer(detail=f"not all reach it; {detail}")
    return Answer(100 * (before - after) / before, f"{detail}, {_learnt(fig14)}")


@of_trainings
def _max10(fig16: pl.DataFrame) -> Answer | None:
    means = (
        final(fig16)
        .sort("environment")
        .group_by("environment", "system", maintain_order=True)
        .agg(pl.col("top1").mean())
        .pivot("system", index="environment", values="top1")
    )
    ours, others = means["max10"], means.select(COMPARED)
    if means.null_count().sum_horizontal().item():
        return None
    best = others.max_horizontal()
    shown = f"{_percents(ours)} %, others at most {_percents(best)}"
    where = _slashed(means["environment"])
    return Answer((ours > best).all(), f"{shown} in {where}, {_learnt(fig16)}")


@of_trainings
def _deviation(fig17: pl.DataFrame) -> Answer:
    """Whether the order is the same in each environment."""
    order = ["dlion", "gaia", "hop", "ako"]
    shown, holds = [], True
    for (where,), part in final(fig17).group_by("environment", maintain_order=True):
        means = dict(part.group_by("system").agg(pl.col("top1_sd").mean()).iter_rows())
        holds &= all(means[one] < means[other] for one, other in pairwise(order))
        shown.append(f"{_slashed(f'{100 * means[name]:.2f}' for name in order)} in {where}")
    detail = f"points of {_slashed(order)}: {', '.join(shown)}, {_learnt(fig17)}"
    return Answer(holds, detail)


def _local_batches(fig6: pl.DataFrame, fig19: pl.DataFrame) -> Answer:
    """Whether sizes rise with cores, follow them as they change, and sum to the global batch."""
    if max(fig19["iteration"]) < LEAST_ITERATIONS:
        return Answer(not_run="takes iterations with each number of cores, as at default scale")
    both = pl.concat([fig6.with_columns(of=pl.lit(6)), fig19.with_columns(of=pl.lit(19))])
    sums = both.group_by("of", "iteration").agg(
        pl.col("samples").sum(), pl.col("global_batch").max(), pl.len()
    )
    whole = sums.filter(pl.col("len") == both["node"].n_unique())
    off = sum(abs(a - b) for a, b in whole.select("samples", "global_batch").rows())
    last = fig6.filter(pl.col("iteration") == fig6["iteration"].max()).sort("cores", "node")
    by_cores = last.group_by("cores").agg(least=pl.min("samples"), most=pl.max("samples"))
    ranges = by_cores.sort("cores").select("least", "most").rows()
    rising = all(most < least for (_, most), (least, _) in pairwise(ranges))
    correlation = fig19.select(pl.corr("cores", "samples", method="spearman").fill_nan(0)).item()
    holds = off == 0 and rising and correlation >= FOLLOWS
    detail = (
        f"sums differ by {off}; {_slashed(last['samples'])} samples by cores; rank correlation "
        f"{correlation:.2f} with changing cores"
    )
    return Answer(bool(holds), detail)


def _sizes(fig20: pl.DataFrame) -> Answer:
    """Whether sizes are proportional to bandwidth, up to a quarter: medians, as both change."""
    sizes = dict(fig20.group_by("mbps").agg(pl.col("percent").median()).sort("mbps").iter_rows())
    if len(sizes) < 2:
        return Answer(not_run="takes iterations at each bandwidth, as at default scale")
    each = [percent / mbps for mbps, percent in sizes.items()]
    shown = ", ".join(f"{mbps:.0f} Mbit/s {percent:.1f} %" for mbps, percent in sizes.items())
    return Answer(max(each) <= PROPORTIONAL * min(each), f"of the whole gradient: {shown}")


@of_trainings
def _converged(kind: str, system: str, fig21: pl.DataFrame) -> Answer | None:
    """More final accuracy than a system; or seconds saved until each settles at its own."""
    if kind == "accuracy":
        return _gain("homo_a", system, fig21)
    ours, theirs = (fig21.filter(system=name) for name in ("dlion", system))
    if ours.is_empty() or theirs.is_empty():
        return None
    own = [_settled_s(one) for one in (theirs, ours)]
    if own[0] is None or own[1] is None:
        return Answer(detail="no accuracy to settle on")
    detail = f"settled at {own[1]:.0f} against {own[0]:.0f} s"
    return Answer(100 * (own[0] - own[1]) / own[0], f"{detail}, {_learnt(fig21)}")


def _settled_s(frame: pl.DataFrame) -> float | None:
    """Mean over seeds of the seconds until within 1 % of the training's own last accuracy."""
    found = [
        seconds_to(frame.filter(seed=seed), 0.99 * top1)
        for seed, top1 in final(frame).select("seed", "top1").rows()
    ]
    return fmean(one for one in found if one is not None) if found else None


def _lines(system: str, hook: str, table1: pl.DataFrame) -> Answer | None:
    found = table1.filter(system=system, hook=hook)
    return None if found.is_empty() else Answer(float(found["statements"][0]), "statements")


LEARNT = tuple(
    f"dlion.{claim}"
    for claim in (
        *("fig5", "fig7", "fig9a", "fig9b", "fig11", "fig12", "fig13", "fig14", "fig15", "fig16"),
        *("fig17", "fig18", "fig21"),
    )
)
"""What only a training of the paper's size decides."""

ANSWERS: Table = {
    "dlion.fig5.early": ("fig5", _early),
    "dlion.fig6.lbs": (("fig6", "fig19"), _local_batches),
    "dlion.fig7.max_n": ("fig7", _larger_n),
    "dlion.fig9a.period": ("fig9", _period),
    "dlion.fig9b.whom": ("fig9", _whom),
    "dlion.fig11": ("fig11", _gain),
    "dlion.fig12": ("fig12", _ratio),
    "dlion.fig13": ("fig13", _gain),
    "dlion.fig14.dynamic_batching": ("fig14", partial(_speed_up, weights=False)),
    "dlion.fig14.weighted_update": ("fig14", partial(_speed_up, weights=True)),
    "dlion.fig15": ("fig15", _gain),
    "dlion.fig16.max10": ("fig16", _max10),
    "dlion.fig17.deviation": ("fig17", _deviation),
    "dlion.fig18": ("fig18", _gain),
    "dlion.fig20.size": ("fig20", _sizes),
    "dlion.fig21": ("fig21", _converged),
    "dlion.table1": ("table1", _lines),
}


_PEERS = STATED["machines"]["count"] - 1
_GRADIENT_MB = STATED["models"]["cipher_bytes"] / 1e6
_FIRST_BATCH = STATED["machines"]["count"] * LOCAL_BATCH
_MEAN = "fig13.mean_of_homo_a_hetero_cpu_a_b"


def _of_hop(figure: str, found: Pace) -> Cause:
    mbps = _slashed(f"{8 * _PEERS * _GRADIENT_MB / one:g}" for one in found.exchange_s)
    seconds = _slashed(f"{one:g}" for one in found.exchange_s)
    return Cause(
        "paper",
        f"{_PEERS} gradients of {_GRADIENT_MB:g} MB through {mbps} Mbit/s take {seconds} s "
        f"(Table 3), so in {SECONDS:,.0f} s Hop makes at most {found.hop_most:.0f} iterations, "
        f"with its bound of {STATED['compared']['hop_staleness']}, and Baseline at least "
        f"{found.baseline_least:.0f}, which computes no longer than it communicates on the LAN "
        f"(Sec. 5.2.3): at most {found.allowed:.2f} times as many, and by the gains in {figure} "
        f"{found.stated:.2f} times as accurate",
    )


def _growth() -> Cause:
    where = ("homo_a", "hetero_cpu_a", "hetero_cpu_b")
    saved = [paper_value(f"dlion.fig14.dynamic_batching.{one}") for one in where]
    most = STATED["batches"]["warm_up_limit"] * POINTS
    return Cause(
        "ours",
        f"recorded while the global batch stayed at its first {_FIRST_BATCH} samples, where the "
        f"paper's grows to {most:.0f}, and its dynamic batching saves {min(saved):g} to "
        f"{max(saved):g} % of the time (Fig. 14); what that is worth here shows once "
        "it is recorded again",
    )


_CEILING = Cause(
    "data",
    "with the paper's gain DLion would be more accurate than what it converges to on 10,000 images "
    "of CIFAR-10 in twice the time (Figure 21, recorded); the paper's learns from 50,000",
)
_BY_HEART = Cause(
    "data",
    "10,000 images of CIFAR-10 are learnt by heart: between 1,500 and 3,000 s the loss on test "
    "samples grows by half or more for every system (recorded), where the paper's DLion, on "
    "50,000, reaches 70 % within 1,500 s (Fig. 14)",
)
_APART = Cause(
    "noise",
    "by half their range its gains in Homo A, Hetero CPU A and B, where the paper finds accuracies "
    "almost the same, are further apart than this is from being near (recorded)",
)

_BY_CAUSE: Sequence[tuple[Cause, Sequence[str]]] = (
    *(
        (_of_hop(figure, found), [f"{figure}.{environment}.hop"])
        for figure, environments in COMPARED_IN.items()
        for environment in environments
        if (found := pace(figure, environment)).contradicts
    ),
    (
        _CEILING,
        [
            *("fig11.hetero_sys_b.baseline", "fig15.homo_b.baseline"),
            *("fig15.hetero_net_a.baseline", "fig18.dynamic_sys_a.baseline"),
            "fig18.dynamic_sys_b.baseline",
        ],
    ),
    (_BY_HEART, ["fig21"]),
    (_APART, ["fig11.hetero_sys_a.gaia", "fig18.dynamic_sys_a.gaia", f"{_MEAN}.hop"]),
    (
        Cause(
            "ours",
            "within 10 % of the largest Max 10 sends less than two whole gradients in "
            f"{SECONDS:,.0f} s in Homo A (recorded), and what it does not send is forgotten, of "
            "which the paper says nothing; adding that up closes more than half of the gap to Ako "
            "at scale default (explanations), the paper's other reading of N none of it",
        ),
        ["fig16.max10"],
    ),
    (
        _growth(),
        [
            *("fig11.homo_a.baseline", "fig11.homo_a.gaia", "fig11.homo_a.ako"),
            *(f"{_MEAN}.baseline", f"{_MEAN}.gaia", f"{_MEAN}.ako", "fig11.hetero_sys_a.ako"),
            *("fig11.hetero_sys_b.ako", "fig18.dynamic_sys_b.ako"),
        ],
    ),
    (
        Cause(
            "ours",
            "with one seed Ako is less accurate in Homo B than with slower links in Hetero NET A "
            "and Hetero SYS A and B (recorded); not explained yet",
        ),
        ["fig15.homo_b.ako"],
    ),
    (
        Cause(
            "ours",
            "Gaia makes less than half of DLion's iterations (recorded), since it waits for what "
            "is significant; how much that is depends on first weights and the learning rate, "
            "which the paper does not state",
        ),
        ["fig15.hetero_net_a.gaia"],
    ),
)
CAUSES: Mapping[str, Cause] = {
    f"dlion.{claim}": cause for cause, claims in _BY_CAUSE for claim in claims
}
"""Why claims are missed in what is recorded."""
