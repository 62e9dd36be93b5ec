"""Figs. 11 to 13, 15 to 18 and 21: systems after the same time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise, product
from statistics import fmean
from typing import Any

import altair as alt
import polars as pl

from workbench.dlion.algorithms import COMPARED
from workbench.dlion.paper.accuracy import (
    final,
    highest,
    learnt_from,
    of_trainings,
    percents,
    seconds_to,
    slashed,
    spread,
)
from workbench.dlion.paper.cases import LEARNING, MAX_10, TIMED, Case
from workbench.dlion.paper.testbed import GPU_ENVIRONMENTS, STATED, Learner
from workbench.dlion.paper.titles import SYSTEM_TITLES, curves, learnt_title, panels
from workbench.dlion.paper.trainings import SIZES, Learnt, trained
from workbench.reproduction.claims import Answer, Cause
from workbench.reproduction.figure import Answering, Figure
from workbench.reproduction.scales import Scaled

OTHERS = COMPARED[:-1]
"""Than DLion."""
_SYSTEMS = tuple(map(Case, COMPARED))


_drawn = partial(panels, "environment", "system", "Accuracy after the same virtual time")


def draw_converged(frame: pl.DataFrame) -> alt.Chart:
    """Accuracy over a long time."""
    drawn = frame.with_columns(pl.col("system").replace(SYSTEM_TITLES))
    return curves(drawn, "system").properties(
        height=200, title=learnt_title("Twice as long, Homo A", frame, "mean")
    )


Selecting = Callable[[pl.DataFrame], pl.DataFrame]
"""The row of each training that counts: `final`, or `highest`."""


def _pairs(
    frame: pl.DataFrame, environment: str, system: str, counts: Selecting = final
) -> pl.DataFrame:
    """Accuracies of DLion and another system, by seed."""
    last = counts(frame).filter(environment=environment)
    ours = last.filter(system="dlion").select("seed", ours="top1")
    return last.filter(system=system).select("seed", theirs="top1").join(ours, on="seed")


def gains(
    frame: pl.DataFrame, environments: Sequence[str], system: str, counts: Selecting = final
) -> list[float]:
    """By how many percent DLion is more accurate, by seed: means over environments.

    Of the seeds that all environments have.
    """
    found = pl.concat(_pairs(frame, where, system, counts) for where in environments)
    by_seed = found.group_by("seed", maintain_order=True).agg(
        gain=100 * (pl.col("ours") / pl.col("theirs") - 1).mean(), environments=pl.len()
    )
    return by_seed.filter(environments=len(environments))["gain"].to_list()


@of_trainings
def _gain(
    environments: Sequence[str], system: str, frame: pl.DataFrame, *, counts: Selecting = final
) -> Answer | None:
    found = gains(frame, environments, system, counts)
    if not found:
        return None
    last = counts(frame).filter(pl.col("environment").is_in(environments))
    ours, theirs = (
        100 * fmean(last.filter(system=name)["top1"].to_list()) for name in ("dlion", system)
    )
    apart = f"gain {spread(found)}" if len(found) > 1 else spread(found)
    detail = f"{ours:.1f}/{theirs:.1f} %, {apart}, {learnt_from(frame)}"
    return Answer.over_seeds(found, detail)


@of_trainings
def _ratio(environment: str, system: str, fig12: pl.DataFrame) -> Answer | None:
    both = _pairs(fig12, environment, system)
    if both.is_empty():
        return None
    ratios = (both["ours"] / both["theirs"]).to_list()
    return Answer.over_seeds(ratios, f"{spread(ratios, 'x')}, {learnt_from(fig12)}")


@of_trainings
def _max10(fig16: pl.DataFrame) -> Answer | None:
    """Whether Max 10 by the paper's examples is above the others everywhere."""
    readings = {
        "sentence": pl.col("n").is_not_null() & pl.col("accumulate").is_null(),
        "sentence, adding up": pl.col("n").is_not_null() & pl.col("accumulate"),
    }
    reading = pl.col("system")
    for name, rows in readings.items():
        reading = pl.when(rows).then(pl.lit(name)).otherwise(reading)
    means = (
        final(fig16)
        .sort("environment")
        .group_by("environment", system=reading, maintain_order=True)
        .agg(pl.col("top1").mean())
        .pivot("system", index="environment", values="top1")
    )
    others = [name for name in OTHERS if name in means.columns]
    if "max10" not in means.columns or means.null_count().sum_horizontal().item():
        return None
    ours, best = means["max10"], means.select(others).max_horizontal()
    holds = bool((ours > best).all())
    if holds and len(others) < len(OTHERS):
        return None
    shown = f"{percents(ours)} %, others at most {percents(best)}"
    for name in readings:
        if name in means.columns:
            shown += f", {percents(means[name])} with N by the {name}"
    where = slashed(means["environment"])
    return Answer(holds, f"{shown} in {where}, {learnt_from(fig16)}")


@of_trainings
def _deviation(fig17: pl.DataFrame) -> Answer | None:
    """Whether the order is the same in each environment."""
    order = ["dlion", "gaia", "hop", "ako"]
    shown, holds, whole = [], True, True
    for (where,), part in final(fig17).group_by("environment", maintain_order=True):
        means = dict(part.group_by("system").agg(pl.col("top1_sd").mean()).iter_rows())
        known = [name for name in order if name in means]
        whole &= known == order
        holds &= all(means[one] < means[other] for one, other in pairwise(known))
        texts = (f"{100 * means[name]:.2f}" if name in means else "-" for name in order)
        shown.append(f"{slashed(texts)} in {where}")
    if holds and not whole:
        return None
    detail = f"points of {slashed(order)}: {', '.join(shown)}, {learnt_from(fig17)}"
    return Answer(holds, detail)


def _means(frame: pl.DataFrame, environment: str, counts: Selecting = final) -> dict[str, float]:
    """Mean accuracy by system."""
    rows = counts(frame).filter(environment=environment).group_by("system")
    return dict(rows.agg(pl.col("top1").mean()).iter_rows())


@of_trainings
def _lan_over_wan(fig15: pl.DataFrame) -> Answer | None:
    """Whether each system is more accurate on the LAN than on either WAN."""
    lan, *wans = (_means(fig15, where) for where in ("homo_a", "homo_b", "hetero_net_a"))
    if not all(found.keys() >= set(COMPARED) for found in (lan, *wans)):
        return None
    holds = all(lan[name] > wan[name] for name in COMPARED for wan in wans)
    shown = (percents(found[name] for name in COMPARED) for found in (lan, *wans))
    return Answer(holds, f"{'; '.join(shown)} % of {slashed(COMPARED)}, {learnt_from(fig15)}")


@of_trainings
def _whole_lose_more(fig15: pl.DataFrame) -> Answer | None:
    """Whether who sends whole gradients loses more from LAN to WANs than who sends parts."""
    lan, *wans = (_means(fig15, where) for where in ("homo_a", "homo_b", "hetero_net_a"))
    if not all(found.keys() >= set(COMPARED) for found in (lan, *wans)):
        return None
    lost = {name: [lan[name] - wan[name] for wan in wans] for name in COMPARED}
    holds = all(
        lost[whole][at] > lost[part][at]
        for whole, part in product(("baseline", "hop"), ("gaia", "ako", "dlion"))
        for at in range(len(wans))
    )
    shown = ", ".join(f"{name} {percents(points)}" for name, points in lost.items())
    return Answer(holds, f"points lost in Homo B/Hetero NET A: {shown}, {learnt_from(fig15)}")


@of_trainings
def _small_gradients(environment: str, fig15: pl.DataFrame) -> Answer | None:
    """Whether who sends small gradients is more accurate than who skips slow workers."""
    found = _means(fig15, environment)
    names = ("hop", "gaia", "ako", "dlion")
    if not found.keys() >= set(names):
        return None
    holds = all(found[name] > found["hop"] for name in names[1:])
    shown = percents(found[name] for name in names)
    return Answer(holds, f"{shown} % of {slashed(names)}, {learnt_from(fig15)}")


@of_trainings
def _above_baseline(fig21: pl.DataFrame) -> Answer | None:
    """Whether Hop, Gaia and Ako end above Baseline."""
    found = _means(fig21, "homo_a", highest)
    if not found.keys() >= set(OTHERS):
        return None
    holds = all(found[name] > found["baseline"] for name in OTHERS[1:])
    shown = percents(found[name] for name in OTHERS)
    return Answer(holds, f"{shown} % of {slashed(OTHERS)}, {learnt_from(fig21)}")


@of_trainings
def _converged(kind: str, system: str, fig21: pl.DataFrame) -> Answer | None:
    """More accuracy at the highest; or seconds saved until each settles at its own."""
    if kind == "accuracy":
        return _gain(("homo_a",), system, fig21, counts=highest)
    if not {"dlion", system} <= set(fig21["system"]):
        return None
    ours, theirs = (_settled_s(fig21.filter(system=name)) for name in ("dlion", system))
    pairs = [(one, other) for seed, one in ours.items() if one and (other := theirs.get(seed))]
    if not pairs:
        return Answer(detail="no accuracy to settle on")
    saved = [100 * (their_s - our_s) / their_s for our_s, their_s in pairs]
    detail = "settled at {:.0f}/{:.0f} s".format(*map(fmean, zip(*pairs, strict=True)))
    return Answer.over_seeds(saved, f"{detail}, {spread(saved)}, {learnt_from(fig21)}")


def _settled_s(frame: pl.DataFrame) -> dict[int, float | None]:
    """By seed, the seconds until within 1 % of the training's own highest accuracy."""
    return {
        seed: seconds_to(frame.filter(seed=seed), 0.99 * top1)
        for seed, top1 in highest(frame).select("seed", "top1").rows()
    }


CEILING = Cause(
    "data",
    "the least gain that counts as near asks more of DLion than it reaches in the same time on "
    "Homo A's LAN, from the fifth of CIFAR-10 that could be had",
)
BY_HEART = Cause(
    "data",
    "the fifth of CIFAR-10 that could be had is learnt by heart: the loss on test samples rises "
    "again in every system's training, long before the paper's would be converged",
)
STILL_RISING = Cause(
    "ours",
    "time saved depends on where a training ends; the paper trains until nothing changes any more",
)
APART = Cause(
    "noise",
    "its gains in Homo A, Hetero CPU A and B, where the paper finds almost the same accuracies, "
    "differ from their mean by more than this claim misses near",
)
_MAX10 = Cause(
    "ours",
    "within 10 % of the largest gradient Max 10 sends hardly anything, and what it does not send "
    "is forgotten, of which the paper says nothing",
)
AKO_FORGETS = Cause(
    "data",
    "whether what Ako does not send adds up, as in Ako's own paper and here, this paper does not "
    "say; if it is forgotten the claim is near, and the one in Homo B no longer is",
)
_GAIA = Cause(
    "ours",
    "beside DLion, Gaia is less accurate than in Hetero SYS A, where by the paper's gains it is "
    "more accurate; not explained yet",
)
_DEVIATION = Cause(
    "ours", "neither are DLion's workers always the closest, nor Ako's; not explained yet"
)


def _figure(
    number: int, systems: Sequence[Case], environments: Sequence[str], **declared: Any
) -> Figure:
    """A figure of the paper: systems in environments."""
    cases = tuple(
        system._replace(environment=where) for where, system in product(environments, systems)
    )
    compute = partial(trained, f"Figure {number}", cases)
    return Learnt(id=f"fig{number}", compute=compute, **{"chart": _drawn, **declared})


def _gains(
    number: int,
    environments: Sequence[str],
    causes: Mapping[str, Cause],
    *,
    stated_in: Sequence[str] = (),
    counts: Selecting = final,
    answers: Mapping[str, Answering] | None = None,
    **declared: Any,
) -> Figure:
    """A figure of DLion's gains over the others; causes by ``environment.system``."""
    prefix = f"dlion.fig{number}"
    return _figure(
        number,
        _SYSTEMS,
        environments,
        answers={
            f"{prefix}.{environment}.{system}": partial(
                _gain, (environment,), system, counts=counts
            )
            for environment, system in product(stated_in or environments, OTHERS)
        }
        | dict(answers or {}),
        causes={f"{prefix}.{claim}": cause for claim, cause in causes.items()},
        **declared,
    )


_UNEQUAL_CORES = ("homo_a", "hetero_cpu_a", "hetero_cpu_b")

FIG11 = _gains(
    11,
    ("homo_a", "hetero_sys_a", "hetero_sys_b"),
    {
        "hetero_sys_a.ako": AKO_FORGETS,
        "hetero_sys_b.baseline": CEILING,
        "hetero_sys_b.gaia": _GAIA,
        "hetero_sys_b.ako": AKO_FORGETS,
    },
    live=True,
)

_MEAN = "dlion.fig13.mean_of_homo_a_hetero_cpu_a_b"
FIG13 = _figure(
    13,
    _SYSTEMS,
    _UNEQUAL_CORES,
    answers={f"{_MEAN}.{system}": partial(_gain, _UNEQUAL_CORES, system) for system in OTHERS},
    causes={f"{_MEAN}.baseline": APART},
)

FIG15 = _gains(
    15,
    ("homo_a", "homo_b", "hetero_net_a"),
    {
        "homo_b.baseline": CEILING,
        "hetero_net_a.baseline": CEILING,
        "hetero_net_a.ako": AKO_FORGETS,
    },
    stated_in=("homo_b", "hetero_net_a"),
    answers={
        "dlion.fig15.lan_over_wan": _lan_over_wan,
        "dlion.fig15.whole_lose_more": _whole_lose_more,
        **{
            f"dlion.fig15.small_gradients.{environment}": partial(_small_gradients, environment)
            for environment in ("homo_b", "hetero_net_a")
        },
    },
)

FIG18 = _gains(
    18,
    ("dynamic_sys_a", "dynamic_sys_b"),
    {
        "dynamic_sys_a.baseline": CEILING,
        "dynamic_sys_b.baseline": CEILING,
        "dynamic_sys_b.gaia": Cause("ours", "not explained yet"),
        "dynamic_sys_b.ako": AKO_FORGETS,
    },
    chart=partial(
        panels,
        "environment",
        "system",
        "Highest accuracy while cores and links change",
        counts=highest,
    ),
    counts=highest,
    sizes={**SIZES, "learning": TIMED},
)

# Deviation: at scale ``paper`` MobileNet learns from CIFAR-10, with the times and bytes of
# 224 x 224 images.
_SMALL = LEARNING.default.learner._replace(timed="mobilenet_v1")
_MOBILE = (
    _SMALL._replace(stands_for=1200.0),
    _SMALL._replace(stands_for=45.0),
    Learner("mobilenet_v1_cifar", "mobilenet_v1"),
)
MOBILE = Scaled(
    *(
        one._replace(learner=learner, seconds=STATED["training"]["mobilenet_s"])
        for one, learner in zip(LEARNING, _MOBILE, strict=True)
    )
)

FIG12 = _figure(
    12,
    _SYSTEMS,
    GPU_ENVIRONMENTS,
    sizes={**SIZES, "learning": MOBILE},
    answers={
        f"dlion.fig12.{environment}.{system}": partial(_ratio, environment, system)
        for environment, system in product(GPU_ENVIRONMENTS, ("hop", "gaia", "ako"))
    },
)

FIG16 = _figure(
    16,
    (*map(Case, OTHERS), *MAX_10),
    ("homo_a", "hetero_sys_a", "hetero_sys_b"),
    answers={"dlion.fig16.max10": _max10},
    causes={"dlion.fig16.max10": _MAX10},
)


def heterogeneous(fig11: pl.DataFrame, fig13: pl.DataFrame, fig15: pl.DataFrame) -> pl.DataFrame:
    """Trainings in heterogeneous environments, which other figures show as well.

    Deviation: Hetero NET B is in no table; Hetero NET A stands in its place.
    """
    where = ("hetero_sys_b", "hetero_net_a", "hetero_cpu_b")
    frames = [fig11, fig15, fig13]
    return pl.concat(frames, how="diagonal").filter(pl.col("environment").is_in(where))


FIG17 = Figure(
    id="fig17",
    of=(FIG11, FIG13, FIG15),
    compute=heterogeneous,
    needs_paper_size=True,
    chart=partial(
        panels,
        "environment",
        "system",
        "Deviation of accuracy among workers",
        value="top1_sd",
        axis="points",
    ),
    answers={"dlion.fig17.deviation": _deviation},
    causes={"dlion.fig17.deviation": _DEVIATION},
)

_KINDS = tuple(product(("accuracy", "time"), OTHERS))
FIG21 = _figure(
    21,
    _SYSTEMS,
    ("homo_a",),
    chart=draw_converged,
    sizes={
        **SIZES,
        "learning": Scaled(
            smoke=TIMED.smoke,
            default=TIMED.default._replace(seconds=3000.0),  # in which it takes to converge
            paper=TIMED.paper._replace(seconds=3000.0),
        ),
    },
    answers={
        **{
            f"dlion.fig21.{kind}.{system}": partial(_converged, kind, system)
            for kind, system in _KINDS
        },
        "dlion.fig21.above_baseline": _above_baseline,
    },
    causes={
        f"dlion.fig21.{kind}.{system}": BY_HEART if kind == "accuracy" else STILL_RISING
        for kind, system in _KINDS
    },
)
