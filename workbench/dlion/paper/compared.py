"""Figs. 11 to 13, 15 to 18 and 21: systems after the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise, product
from statistics import fmean
from typing import Any

import altair as alt
import polars as pl

from workbench.dlion.algorithms import COMPARED
from workbench.dlion.paper import hop
from workbench.dlion.paper.accuracy import (
    final,
    learnt_from,
    of_trainings,
    percents,
    seconds_to,
    slashed,
    spread,
)
from workbench.dlion.paper.cases import LEARNING, MAX_10, Case
from workbench.dlion.paper.hop import COMPARED_IN
from workbench.dlion.paper.testbed import GPU_ENVIRONMENTS, SECONDS, STATED, Learner
from workbench.dlion.paper.titles import SYSTEM_TITLES, curves, learnt_title, panels
from workbench.dlion.paper.trainings import SIZES, Learnt, trained
from workbench.reproduction.claims import Answer, Cause
from workbench.reproduction.figure import Figure
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
def _gain(environments: Sequence[str], system: str, frame: pl.DataFrame) -> Answer | None:
    found = gains(frame, environments, system)
    if not found:
        return None
    last = final(frame).filter(pl.col("environment").is_in(environments))
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
    reading = pl.when(pl.col("n").is_null()).then("system").otherwise(pl.lit("sentence"))
    means = (
        final(fig16)
        .sort("environment")
        .group_by("environment", system=reading, maintain_order=True)
        .agg(pl.col("top1").mean())
        .pivot("system", index="environment", values="top1")
    )
    if means.null_count().sum_horizontal().item():
        return None
    ours, best = means["max10"], means.select(OTHERS).max_horizontal()
    shown = f"{percents(ours)} %, others at most {percents(best)}"
    if "sentence" in means.columns:
        shown += f", {percents(means['sentence'])} with N by the sentence"
    where = slashed(means["environment"])
    return Answer((ours > best).all(), f"{shown} in {where}, {learnt_from(fig16)}")


@of_trainings
def _deviation(fig17: pl.DataFrame) -> Answer | None:
    """Whether the order is the same in each environment."""
    order = ["dlion", "gaia", "hop", "ako"]
    shown, holds = [], True
    for (where,), part in final(fig17).group_by("environment", maintain_order=True):
        means = dict(part.group_by("system").agg(pl.col("top1_sd").mean()).iter_rows())
        if not means.keys() >= set(order):
            return None
        holds &= all(means[one] < means[other] for one, other in pairwise(order))
        shown.append(f"{slashed(f'{100 * means[name]:.2f}' for name in order)} in {where}")
    detail = f"points of {slashed(order)}: {', '.join(shown)}, {learnt_from(fig17)}"
    return Answer(holds, detail)


@of_trainings
def _converged(kind: str, system: str, fig21: pl.DataFrame) -> Answer | None:
    """More final accuracy than a system; or seconds saved until each settles at its own."""
    if kind == "accuracy":
        return _gain(("homo_a",), system, fig21)
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
    """By seed, the seconds until within 1 % of the training's own last accuracy."""
    return {
        seed: seconds_to(frame.filter(seed=seed), 0.99 * top1)
        for seed, top1 in final(frame).select("seed", "top1").rows()
    }


_CEILING = Cause(
    "data",
    "with the smallest gain that counts as near DLion would be more accurate than on Homo A's LAN "
    "in the same time; from 10,000 images of CIFAR-10 it never gets to 58 % (recorded), where the "
    "paper's, on 50,000, reaches 70 % within 1,500 s (Fig. 14)",
)

_BY_HEART = Cause(
    "data",
    "10,000 images of CIFAR-10 are learnt by heart: the loss on test samples is least before "
    "2,000 s and by 3,000 s grows by half or more, for every system (recorded), where the "
    "paper's DLion, on 50,000, reaches 70 % within 1,500 s (Fig. 14)",
)

_STILL_RISING = Cause(
    "ours",
    "time saved depends on where a training ends: at 2,000, 2,400 and 3,000 s DLion saves 1, 20 "
    "and 40 % over Baseline, 15, 23 and 35 over Gaia, 7, -5 and 35 over Ako (recorded); the paper "
    "trains until nothing changes any more",
)

_APART = Cause(
    "noise",
    "its gains in Homo A, Hetero CPU A and B, where the paper finds almost the same accuracies, "
    "differ from their mean by more than this claim misses near (recorded)",
)

_BACKUP = Cause(
    "data",
    "a backup worker saves waiting for iterations that happen to take long; how much they vary the "
    "paper does not say, and where they do not, Hop makes at most 1 % more iterations than "
    "Baseline (recorded)",
)
_MAX10 = Cause(
    "ours",
    "within 10 % of the largest Max 10 sends less than two whole gradients in "
    f"{SECONDS:,.0f} s in Homo A (recorded), and what it does not send is forgotten, of "
    "which the paper says nothing; added up it is level with Ako and within a point of Gaia there, "
    "and the paper's other reading of N closes two thirds of the gap to Ako (recorded)",
)
_AKO_FORGETS = Cause(
    "data",
    "by the paper Ako sends a block of the partitioned gradients in turn; whether the rest adds "
    "up, as in Ako's own paper and here, cannot be had: if it is forgotten, DLion gains 25, 23, "
    "21 and 28 % in Hetero SYS A, SYS B, NET A and Dynamic SYS B, but 31 % in Homo B, where the "
    "paper has 16 (recorded)",
)
_GAIA = Cause(
    "ours",
    "beside DLion, Gaia is less accurate than in Hetero SYS A (recorded), where by the paper's "
    "gains it is more accurate; not explained yet",
)
_DEVIATION = Cause(
    "ours",
    "in Hetero SYS B DLion's workers are at the end twice as far apart as in the 300 s before; in "
    "Hetero NET A and CPU B Gaia's are closer together, and Ako's are nowhere the furthest apart "
    "(recorded); not explained yet",
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
    number: int, environments: Sequence[str], causes: Mapping[str, Cause], **declared: Any
) -> Figure:
    """A figure of DLion's gains over the others; causes by ``environment.system``."""
    prefix = f"dlion.fig{number}"
    return _figure(
        number,
        _SYSTEMS,
        environments,
        answers={
            f"{prefix}.{environment}.{system}": partial(_gain, (environment,), system)
            for environment, system in product(COMPARED_IN[f"fig{number}"], OTHERS)
        },
        causes={
            **hop.causes(f"fig{number}"),
            **{f"{prefix}.{claim}": cause for claim, cause in causes.items()},
        },
        **declared,
    )


_UNEQUAL_CORES = ("homo_a", "hetero_cpu_a", "hetero_cpu_b")

FIG11 = _gains(
    11,
    ("homo_a", "hetero_sys_a", "hetero_sys_b"),
    {
        "homo_a.hop": _BACKUP,
        "hetero_sys_a.ako": _AKO_FORGETS,
        "hetero_sys_b.baseline": _CEILING,
        "hetero_sys_b.gaia": _GAIA,
        "hetero_sys_b.ako": _AKO_FORGETS,
    },
    live=True,
)

_MEAN = "dlion.fig13.mean_of_homo_a_hetero_cpu_a_b"
FIG13 = _figure(
    13,
    _SYSTEMS,
    _UNEQUAL_CORES,
    answers={f"{_MEAN}.{system}": partial(_gain, _UNEQUAL_CORES, system) for system in OTHERS},
    causes={f"{_MEAN}.hop": _BACKUP, f"{_MEAN}.baseline": _APART},
)

FIG15 = _gains(
    15,
    ("homo_a", "homo_b", "hetero_net_a"),
    {
        "homo_b.baseline": _CEILING,
        "hetero_net_a.baseline": _CEILING,
        "hetero_net_a.ako": _AKO_FORGETS,
    },
)

FIG18 = _gains(
    18,
    ("dynamic_sys_a", "dynamic_sys_b"),
    {
        "dynamic_sys_a.baseline": _CEILING,
        "dynamic_sys_b.baseline": _CEILING,
        "dynamic_sys_b.ako": _AKO_FORGETS,
    },
    chart=partial(panels, "environment", "system", "Accuracy while cores and links change"),
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
    return pl.concat([fig11, fig15, fig13]).filter(pl.col("environment").is_in(where))


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
            smoke=LEARNING.smoke,
            default=LEARNING.default._replace(seconds=3000.0),  # in which it takes to converge
            paper=LEARNING.paper._replace(seconds=3000.0),
        ),
    },
    answers={
        f"dlion.fig21.{kind}.{system}": partial(_converged, kind, system) for kind, system in _KINDS
    },
    causes={
        f"dlion.fig21.{kind}.{system}": _BY_HEART if kind == "accuracy" else _STILL_RISING
        for kind, system in _KINDS
    },
)
