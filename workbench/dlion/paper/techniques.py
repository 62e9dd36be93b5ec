"""Fig. 14: dynamic batching and its weights; and what each technique is worth, which is ours."""

from __future__ import annotations

from functools import partial
from itertools import combinations, product

import altair as alt
import polars as pl

from workbench.dlion.algorithms.weighted_update import WEIGHTINGS
from workbench.dlion.paper.accuracy import (
    learnt_from,
    of_trainings,
    seconds_text,
    seconds_to,
    target_of,
)
from workbench.dlion.paper.cases import TIMED, Case
from workbench.dlion.paper.testbed import CPU_ENVIRONMENTS, DYNAMIC
from workbench.dlion.paper.titles import ENVIRONMENT_TITLES, curves, learnt_title, panels, values
from workbench.dlion.paper.trainings import SIZES, Learnt, Trained, trained
from workbench.figures import parts
from workbench.reproduction.claims import Answer
from workbench.reproduction.scales import Scaled


def draw_speed_ups(frame: pl.DataFrame) -> alt.FacetChart:
    """Seconds until an accuracy without dynamic batching, without its weights, and with both."""
    labelled = frame.with_columns(
        variant=pl.when(pl.col("techniques").is_not_null())
        .then(pl.lit("neither"))
        .when(weighting="equal")
        .then(pl.lit("batching"))
        .otherwise(pl.lit("and weights"))
    )
    rows: list[tuple[str, object, float | None]] = []
    for (where,), part in labelled.group_by("environment", maintain_order=True):
        target = target_of(part)
        heading = f"{ENVIRONMENT_TITLES[str(where)]}: to {100 * target:.0f} %"
        for (variant,), rows_of in part.group_by("variant", maintain_order=True):
            rows.append((heading, variant, seconds_to(rows_of, target)))
    schema = {"panel": pl.String, "variant": pl.String, "seconds": pl.Float64}
    drawn = pl.DataFrame(rows, schema, orient="row")
    names, headings = (values(drawn, column) for column in ("variant", "panel"))
    base = alt.Chart(drawn).encode(y=alt.Y("variant:N", sort=names, title=None))
    bars = base.mark_bar().encode(
        x=alt.X("seconds:Q", title="virtual seconds"),
        color=parts.colour("variant", names, legend=None),
    )
    texts = base.mark_text(align="left", dx=3).encode(
        x="seconds:Q", text=alt.Text("seconds:Q", format=".0f")
    )
    title = learnt_title("Dynamic batching and weighted updates", frame)
    return parts.facets(alt.layer(bars, texts).properties(height=50), "panel", headings, title)


def draw_techniques(frame: pl.DataFrame) -> alt.FacetChart:
    """Final accuracy of all combinations of the three techniques."""
    chosen = pl.col("techniques").replace({"": "none"}).fill_null("all three")
    drawn = frame.with_columns(chosen=chosen)
    return panels("environment", "chosen", "What each technique is worth", drawn)


def draw_weightings(frame: pl.DataFrame) -> alt.Chart:
    """Accuracy over time by how gradients from unequal batches are weighted."""
    titles = {
        "dynamic": "dynamic (Eq. 7)",
        "equal": "equal (Eq. 4)",
        "by_samples": "by samples, sum 1",
    }
    drawn = frame.with_columns(pl.col("weighting").fill_null("dynamic").replace(titles))
    title = learnt_title("Weights of gradients from unequal batches, Hetero CPU A", frame, "mean")
    return curves(drawn, "weighting").properties(height=180, title=title)


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
    detail = f"until {100 * target:.0f} %: {seconds_text(seconds)}"
    before, after = (dynamic_s, weighted_s) if weights else (none_s, dynamic_s)
    if before is None or after is None:
        return Answer(detail=f"not all reach it; {detail}")
    return Answer(100 * (before - after) / before, f"{detail}, {learnt_from(fig14)}")


_CORES = ("homo_a", "hetero_cpu_a", "hetero_cpu_b")
VARIANTS = (Case(techniques=("links", "transfer")), Case(weighting="equal"), Case())

FIG14 = Learnt(
    id="fig14",
    sizes={**SIZES, "learning": TIMED},
    compute=partial(
        trained,
        "Figure 14",
        tuple(one._replace(environment=name) for name, one in product(_CORES, VARIANTS)),
    ),
    chart=draw_speed_ups,
    answers={
        f"dlion.fig14.{name}.{environment}": partial(_speed_up, environment, weights=weights)
        for name, weights in (("dynamic_batching", False), ("weighted_update", True))
        for environment in _CORES
    },
)

WEIGHTED = Trained(
    id="weightings",
    compute=partial(
        trained,
        "Weightings",
        tuple(
            Case(environment="hetero_cpu_a", weighting=None if name == "dynamic" else name)
            for name in WEIGHTINGS
        ),
    ),
    chart=draw_weightings,
)


def _combinations(*environments: str) -> tuple[Case, ...]:
    """All eight of the three techniques; None is all three."""
    each = ("batching", "links", "transfer")
    some = [chosen for count in range(len(each)) for chosen in combinations(each, count)]
    both = product(environments, [*some, None])
    return tuple(Case(environment=name, techniques=chosen) for name, chosen in both)


TECHNIQUES = Trained(
    id="techniques",
    compute=partial(trained, "Techniques"),
    chart=draw_techniques,
    sizes={
        **SIZES,
        "cases": Scaled(
            smoke=_combinations("homo_a", "hetero_sys_a"),
            default=_combinations("homo_a", "hetero_sys_a"),
            paper=_combinations(*CPU_ENVIRONMENTS, *DYNAMIC),
        ),
    },
)
