"""The paper's figures and tables as charts: one function each, frame to altair chart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from workbench import datasets, figures
from workbench.dlion.algorithms import SYSTEMS
from workbench.dlion.costs.environments import ENVIRONMENTS
from workbench.dlion.paper.frames import final, seconds_to, target_of
from workbench.dlion.paper.testbed import CANDIDATES, paper_testbed
from workbench.figures import parts

SYSTEM_TITLES = {name: one.title for name, one in SYSTEMS.items()}
ENVIRONMENT_TITLES = {name: one.title for name, one in ENVIRONMENTS.items()}
LEARNER_TITLES = {
    "cipher": "Cipher",
    "cipher_small": "small Cipher",
    "mobilenet_v1": "MobileNet",
    "mobilenet_v1_cifar": "MobileNet for small images",
}
TECHNIQUE_TITLES = {"batching": "batching", "links": "links", "transfer": "transfer"}
WORKERS = [f"worker {node}" for node in range(6)]


def fig5(frame: pl.DataFrame) -> alt.LayerChart:
    """Final accuracy by the epoch from which the global batch doubles."""
    title = _learnt("Doubling the global batch from an epoch on", frame)
    return _bars(frame, "growth_epochs:O", "doubling from epoch", title)


def fig7(frame: pl.DataFrame) -> alt.LayerChart:
    """Final accuracy by N of Max N."""
    return _bars(frame, "n:O", "N of Max N, %", _learnt("The largest gradients alone", frame))


def fig6(frame: pl.DataFrame) -> alt.VConcatChart:
    """Local batch sizes over time, and the cores."""
    return _over_time(frame, "Local batch sizes while the global batch grows")


def fig19(frame: pl.DataFrame) -> alt.VConcatChart:
    """Local batch sizes over time, and the cores that change."""
    return _over_time(frame, "Local batch sizes while cores change")


def _over_time(frame: pl.DataFrame, subject: str) -> alt.VConcatChart:
    drawn = frame.with_columns(worker=pl.format("worker {}", "node"))
    base = alt.Chart(drawn).encode(x=alt.X("at_s:Q", title="virtual seconds"))
    colour = parts.colour("worker", WORKERS)
    upper = base.mark_line(interpolate="step-after").encode(
        y=alt.Y("samples:Q", title="local batch, samples"), color=colour
    )
    lower = base.mark_line(interpolate="step-after").encode(
        y=alt.Y("cores:Q", title="cores"), color=colour
    )
    title = [subject, "sizes are the paper's (simulated)"]
    return alt.vconcat(upper.properties(height=150), lower.properties(height=70), title=title)


def fig8(frame: pl.DataFrame) -> alt.Chart:
    """What worker 0 sends over links of different bandwidth."""
    drawn = frame.filter(source=0).with_columns(
        link=pl.format("to worker {}: {} Mbit/s", "target", pl.col("mbps").cast(pl.Int64))
    )
    names = drawn.sort("target")["link"].unique(maintain_order=True).to_list()
    title = ["What worker 0 sends its peers", "Hetero NET A (simulated)"]
    return _sizes(drawn, "link", names).properties(title=title)


def fig20(frame: pl.DataFrame) -> alt.VConcatChart:
    """What worker 0 sends while bandwidth changes."""
    drawn = frame.filter(source=0).with_columns(link=pl.format("to worker {}", "target"))
    names = drawn.sort("target")["link"].unique(maintain_order=True).to_list()
    sizes = _sizes(drawn, "link", names)
    mbps = (
        alt.Chart(drawn)
        .mark_line(interpolate="step-after", color=parts.GREY)
        .encode(x=alt.X("at_s:Q", title="virtual seconds"), y=alt.Y("mbps:Q", title="Mbit/s"))
        .properties(height=60)
    )
    title = ["What worker 0 sends while bandwidth changes", "(simulated)"]
    return alt.vconcat(sizes, mbps, title=title)


def _sizes(drawn: pl.DataFrame, field: str, names: Sequence[str]) -> alt.Chart:
    chart: alt.Chart = (
        alt.Chart(drawn)
        .mark_line()
        .encode(
            x=alt.X("at_s:Q", title="virtual seconds"),
            y=alt.Y("percent:Q", title="of the whole gradient's bytes, %"),
            **figures.series(field, names),
        )
        .properties(height=150)
    )
    return chart


def fig9(frame: pl.DataFrame) -> alt.VConcatChart:
    """Knowledge transfer: seconds by period, and accuracy over time by whom and by lambda."""
    periods = frame.filter(panel="period").with_columns(
        setting=pl.when(pl.col("early").is_not_null())
        .then(pl.lit("early and frequent"))
        .otherwise(pl.format("every {}", "period"))
    )
    whom = frame.filter(panel="whom").with_columns(
        setting=pl.when(pl.col("techniques").is_not_null())
        .then(pl.lit("no transfer"))
        .otherwise(pl.format("best to {}", pl.col("whom").fill_null("all")))
    )
    lambdas = frame.filter(panel="lambda").with_columns(
        setting=pl.format("lambda {}", pl.col("share"))
    )
    target = target_of(periods)
    return alt.vconcat(
        _until(periods, "setting", target, "iterations"),
        _curves(whom, "setting", "Whom to send the best weights"),
        _curves(lambdas, "setting", "How far towards the best weights"),
        title=_learnt("Direct knowledge transfer, Homo A", frame),
    ).resolve_scale(color="independent", shape="independent", strokeDash="independent")


def _until(frame: pl.DataFrame, field: str, target: float, axis: str) -> alt.LayerChart:
    rows = [
        (name, seconds_to(part, target))
        for (name,), part in frame.group_by(field, maintain_order=True)
    ]
    drawn = pl.DataFrame(
        rows, schema={field: pl.String, "seconds": pl.Float64}, orient="row"
    ).with_columns(
        text=pl.when(pl.col("seconds").is_null())
        .then(pl.lit("never"))
        .otherwise(pl.format("{} s", pl.col("seconds").round(0).cast(pl.Int64)))
    )
    base = alt.Chart(drawn).encode(
        y=alt.Y(f"{field}:N", sort=None, title=axis),
        x=alt.X("seconds:Q", title=f"virtual seconds until {100 * target:.0f} %"),
    )
    texts = base.mark_text(align="left", dx=3).encode(text="text:N")
    return (base.mark_bar() + texts).properties(height=16 * len(rows))


def _curves(frame: pl.DataFrame, field: str, title: str) -> alt.Chart:
    names = frame[field].unique(maintain_order=True).to_list()
    drawn = (
        parts.trained(frame)[0]
        .group_by(field, "at_s", maintain_order=True)
        .agg(percent=100 * pl.col("top1").mean())
    )
    chart: alt.Chart = (
        parts.over_time(drawn, field, names)
        .encode(y=alt.Y("percent:Q", title="top-1, %"))
        .properties(height=130, title=title)
    )
    return chart


def compared(frame: pl.DataFrame) -> alt.FacetChart:
    """Final accuracy of every system, a panel for each environment (Figs. 11 to 13, 15, 16, 18)."""
    return _grouped(frame, "top1", "top-1, %", "Accuracy after the same virtual time")


def fig17(frame: pl.DataFrame) -> alt.FacetChart:
    """Standard deviation of the workers' accuracies."""
    return _grouped(frame, "top1_sd", "points", "Deviation of accuracy among workers")


def _grouped(frame: pl.DataFrame, value: str, axis: str, subject: str) -> alt.FacetChart:
    drawn = frame.with_columns(
        pl.col("environment").replace(ENVIRONMENT_TITLES), pl.col("system").replace(SYSTEM_TITLES)
    )
    return _panels(drawn, "environment", "system", subject, value=value, axis=axis)


def fig14(frame: pl.DataFrame) -> alt.FacetChart:
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
        for (variant,), one in part.group_by("variant", maintain_order=True):
            panel_title = f"{ENVIRONMENT_TITLES[str(where)]}: to {100 * target:.0f} %"
            rows.append((panel_title, variant, seconds_to(one, target)))
    drawn = pl.DataFrame(
        rows,
        schema={"panel": pl.String, "variant": pl.String, "seconds": pl.Float64},
        orient="row",
    )
    names = drawn["variant"].unique(maintain_order=True).to_list()
    base = alt.Chart(drawn).encode(y=alt.Y("variant:N", sort=names, title=None))
    bars = base.mark_bar().encode(
        x=alt.X("seconds:Q", title="virtual seconds"),
        color=parts.colour("variant", names, legend=None),
    )
    texts = base.mark_text(align="left", dx=3).encode(
        x="seconds:Q", text=alt.Text("seconds:Q", format=".0f")
    )
    panels = drawn["panel"].unique(maintain_order=True).to_list()
    panel = alt.layer(bars, texts).properties(height=50)
    title = _learnt("Dynamic batching and weighted updates", frame)
    return parts.facets(panel, "panel", panels, title)


def fig18(frame: pl.DataFrame) -> alt.FacetChart:
    """Best accuracy while resources change."""
    return _grouped(frame, "top1", "top-1, %", "Accuracy while cores and links change")


def fig21(frame: pl.DataFrame) -> alt.Chart:
    """Accuracy over a long time."""
    drawn = frame.with_columns(pl.col("system").replace(SYSTEM_TITLES))
    return _curves(drawn, "system", "").properties(
        height=200, title=_learnt("Until it has converged, Homo A", frame)
    )


def techniques(frame: pl.DataFrame) -> alt.FacetChart:
    """Final accuracy of all combinations of the three techniques."""
    labelled = frame.with_columns(
        chosen=pl.when(pl.col("techniques").is_null())
        .then(pl.lit("all three"))
        .when(techniques="")
        .then(pl.lit("none"))
        .otherwise(pl.col("techniques"))
    )
    drawn = labelled.with_columns(pl.col("environment").replace(ENVIRONMENT_TITLES))
    return _panels(drawn, "environment", "chosen", "What each technique is worth")


def weightings(frame: pl.DataFrame) -> alt.Chart:
    """Accuracy over time by how gradients from unequal batches are weighted."""
    titles = {
        "dynamic": "dynamic (Eq. 7)",
        "equal": "equal (Eq. 4)",
        "by_samples": "by samples, sum 1",
    }
    drawn = frame.with_columns(pl.col("weighting").fill_null("dynamic").replace(titles))
    title = _learnt("Weights of gradients from unequal batches, Hetero CPU A", frame)
    return _curves(drawn, "weighting", "").properties(height=180, title=title)


def all_systems(frame: pl.DataFrame) -> alt.Chart:
    """Final accuracy of every system, and with samples of few classes a worker."""
    labelled = frame.with_columns(
        pl.col("system").replace(SYSTEM_TITLES),
        data=pl.when(pl.col("classes").is_null())
        .then(pl.lit("all classes"))
        .otherwise(pl.lit("few classes a worker")),
    )
    names = labelled["system"].unique(maintain_order=True).to_list()
    kinds = labelled["data"].unique(maintain_order=True).to_list()
    drawn = _final(labelled, "system", "data")
    base = alt.Chart(drawn).encode(
        y=alt.Y("system:N", sort=names, title=None), yOffset=alt.YOffset("data:N", sort=kinds)
    )
    title = _learnt("All systems in Hetero SYS A, and samples of few classes", frame)
    chart: alt.Chart = (
        base.mark_bar()
        .encode(x=alt.X("mean:Q", title="top-1, %"), color=parts.colour("data", kinds))
        .properties(height=26 * len(names), title=title)
    )
    return chart


def scaling(frame: pl.DataFrame) -> alt.FacetChart:
    """Accuracy, and iterations done, by the number of workers."""
    last = final(frame).with_columns(pl.col("system").replace(SYSTEM_TITLES))
    names = last["system"].unique(maintain_order=True).to_list()
    drawn = (
        last.group_by("system", "workers", maintain_order=True)
        .agg(pl.col("iterations").mean(), percent=100 * pl.col("top1").mean())
        .with_columns(iterations=pl.col("iterations") * frame["stands_for"][0])
        .unpivot(on=["percent", "iterations"], index=["system", "workers"])
        .with_columns(
            pl.col("variable").replace(
                {"percent": "top-1, %", "iterations": "the paper's iterations of a worker"}
            )
        )
    )
    sizes = drawn["workers"].unique().sort().to_list()
    chart = alt.Chart(drawn)
    marked = chart.mark_line(point=True) if len(sizes) > 2 else chart.mark_point()
    lines = marked.encode(
        x=alt.X(
            "workers:Q",
            scale=alt.Scale(type="log", base=2, nice=False, padding=12),
            axis=alt.Axis(values=sizes),
        ),
        y=alt.Y("value:Q", title=None),
        **figures.series("system", names),
    ).properties(height=130)
    panels = drawn["variable"].unique(maintain_order=True).to_list()
    title = _learnt("More workers, kinds as in Hetero SYS A", frame)
    return parts.facets(lines, "variable", panels, title).resolve_scale(y="independent")


def explanations(frame: pl.DataFrame) -> alt.FacetChart:
    """Final accuracy by what may put Baseline below the others, and Max 10 above them."""
    drawn = frame.with_columns(
        pl.when("accumulate")
        .then(pl.lit("the rest adds up"))
        .when(pl.col("n").is_not_null())
        .then(pl.lit("by the sentence"))
        .when(system="max10")
        .then(pl.lit("by the examples"))
        .otherwise(pl.col("system").replace(SYSTEM_TITLES))
        .alias("system")
    )
    subject = "What may put Baseline below systems that send less, and Max 10 above, Homo A"
    chart: alt.FacetChart = _panels(drawn, "explanation", "system", subject)
    return chart.resolve_scale(y="independent")


def candidates(frame: pl.DataFrame) -> alt.FacetChart:
    """Final accuracy by the constants that calibration picks from, and whose first weights."""
    drawn = frame.with_columns(
        pl.col("system").replace(SYSTEM_TITLES),
        constants=pl.format("{}: {}", "first_weights", "candidate"),
    )
    subject = "Constants that are weighed, and first weights, Homo A"
    return _panels(drawn, "constants", "system", subject)


def first_weights(frame: pl.DataFrame) -> alt.FacetChart:
    """Final accuracy in Homo A with the constants in use, by whose first weights."""
    in_use = next(name for name, one in CANDIDATES.items() if one == paper_testbed().constants)
    titles = {"own": "each worker's own", "shared": "the same for all"}
    drawn = frame.filter(candidate=in_use).with_columns(
        pl.col("system").replace(SYSTEM_TITLES), pl.col("first_weights").replace(titles)
    )
    return _panels(drawn, "first_weights", "system", "First weights, Homo A")


def failures(frame: pl.DataFrame) -> alt.FacetChart:
    """Accuracy over time while a worker or a link fails."""
    drawn = (
        parts.trained(frame)[0]
        .with_columns(pl.col("system").replace(SYSTEM_TITLES))
        .group_by("scenario", "system", "at_s", maintain_order=True)
        .agg(percent=100 * pl.col("top1").mean())
    )
    names = drawn["system"].unique(maintain_order=True).to_list()
    panels = drawn["scenario"].unique(maintain_order=True).to_list()
    lines = parts.over_time(drawn, "system", names).encode(y=alt.Y("percent:Q", title="top-1, %"))
    title = _learnt("A worker crashes, a link fails; Homo A", frame)
    return parts.facets(lines.properties(height=110), "scenario", panels, title)


def table3(frame: pl.DataFrame) -> alt.FacetChart:
    """Interface of each worker over time, by environment."""
    titles = {**ENVIRONMENT_TITLES, "fig19": "Fig. 19", "fig20": "Fig. 20"}  # room for two panels
    ends = frame.filter(pl.col("to_s") == pl.col("to_s").max()).with_columns(at_s=pl.col("to_s"))
    drawn = (
        pl.concat([frame.with_columns(at_s=pl.col("from_s")), ends])
        .with_columns(pl.col("environment").replace(titles), worker=pl.format("worker {}", "node"))
        .sort("environment", "node", "at_s")
    )
    lines = (
        alt.Chart(drawn)
        .mark_line(interpolate="step-after")
        .encode(
            x=alt.X("at_s:Q", title="virtual seconds"),
            y=alt.Y("mbps:Q", title="Mbit/s", scale=alt.Scale(type="log")),
            color=parts.colour("worker", WORKERS),
        )
        .properties(height=80)
    )
    panels = [titles[one] for one in frame["environment"].unique(maintain_order=True)]
    return parts.facets(lines, "environment", panels, "Interfaces by environment (Table 3)")


def _final(frame: pl.DataFrame, *by: str, value: str = "top1") -> pl.DataFrame:
    """Mean and range over seeds of the final accuracy, in percent."""
    percent = 100 * pl.col(value)
    return (
        final(frame)
        .group_by(*by, maintain_order=True)
        .agg(mean=percent.mean(), low=percent.min(), high=percent.max())
    )


def _panels(
    frame: pl.DataFrame,
    panel: str,
    by: str,
    subject: str,
    *,
    value: str = "top1",
    axis: str = "top-1, %",
) -> alt.FacetChart:
    """Bars of final values by `by`, with their range over seeds, a panel for each of `panel`."""
    names, panels = (frame[one].unique(maintain_order=True).to_list() for one in (by, panel))
    base = alt.Chart(_final(frame, panel, by, value=value)).encode(
        y=alt.Y(f"{by}:N", sort=names, title=None)
    )
    bars = base.mark_bar().encode(x=alt.X("mean:Q", title=axis))
    spread = base.mark_rule().encode(x="low:Q", x2="high:Q")
    texts = base.mark_text(align="left", dx=3).encode(
        x="high:Q", text=alt.Text("mean:Q", format=".1f")
    )
    drawn = alt.layer(bars, spread, texts).properties(height=16 * len(names))
    return parts.facets(drawn, panel, panels, _learnt(subject, frame))


def _bars(frame: pl.DataFrame, field: str, axis: str, title: list[str]) -> alt.LayerChart:
    drawn = _final(frame, field.partition(":")[0])
    base = alt.Chart(drawn).encode(y=alt.Y(field, title=axis))
    bars = base.mark_bar().encode(x=alt.X("mean:Q", title="top-1, %"))
    spread = base.mark_rule().encode(x="low:Q", x2="high:Q")
    texts = base.mark_text(align="left", dx=3).encode(
        x="high:Q", text=alt.Text("mean:Q", format=".1f")
    )
    return alt.LayerChart(layer=[bars, spread, texts], height=20 * len(drawn), title=title)


def _learnt(subject: str, frame: pl.DataFrame) -> list[str]:
    """A title: what is shown, and what learnt what."""
    row: dict[str, Any] = frame.row(0, named=True)
    seeds = frame["seed"].n_unique()
    learner, timed = (LEARNER_TITLES.get(row[name], row[name]) for name in ("learner", "timed"))
    who = learner
    if learner != timed or row["stands_for"] != 1:
        who = f"{learner} with {timed}'s times, an iteration for {row['stands_for']:g} of its"
    data = f"{row['train_samples']:,} samples of {datasets.title(row['dataset'])}"
    ranges = "one seed" if seeds == 1 else f"mean and range of {seeds} seeds"
    left_out = parts.trained(frame)[1]
    return [subject, *left_out, f"{who}; {data}; {ranges} (simulated)"]
