"""Table II: memory by arithmetic, as the paper's library keeps results, and time measured here."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from workbench.figures import parts
from workbench.memory.dataflow import Dataflow, Step
from workbench.memory.plan import MemoryPlan
from workbench.memory.planning import plan_memory
from workbench.olpb.costs.library import LibraryGraph, library_graph
from workbench.olpb.paper.testbed import STATED
from workbench.olpb.paper.titles import MB, MODEL_TITLES, model_title
from workbench.profiles.graph import OperatorGraph
from workbench.reproduction.claims import Answer, Cause, paper_value
from workbench.reproduction.figure import Figure
from workbench.reproduction.scales import Scaled
from workbench.reproduction.sweep import grid, sweep
from workbench.utils.checks import check_name

SIDES: Mapping[str, int] = STATED["table2"]["image_px"]
"""Pixels of an image's side, by network."""
PAPER_BYTES = 8
"""Bytes a number of results, as ResNet-50's line of Table II adds up."""
SINGLE = 4
"""Bytes a number in single precision."""

COUNTED: dict[str, Any] = {
    "model": pl.String,
    "image_px": pl.Int64,
    "counting": pl.String,
    "bytes_per_number": pl.Int64,
    "planner": pl.String,
    **dict.fromkeys(("parameter_bytes", "without_bytes", "with_bytes", "bound_bytes"), pl.Int64),
    **dict.fromkeys(("paper_without_mb", "paper_with_mb"), pl.Float64),
}


def memory(models: Sequence[str] = tuple(SIDES)) -> pl.DataFrame:
    """Memory of inference without and with a plan (Table II), by arithmetic.

    A row for each of `models` and ``counting``: ``library``, every result of the library's
    granularity at eight bytes a number, and the paper's planner; ``single``, the same at four
    bytes; ``workbench``, what PyTorch's operators make, and the workbench's planner on the
    optimised graph. ``without_bytes`` keeps all results, ``with_bytes`` is the plan,
    ``bound_bytes`` the most alive at once, all with the parameters, in single precision always, as
    in Table I; ``paper_without_mb`` and ``paper_with_mb`` are the paper's.

    Results of eight bytes come to the paper's figure for ResNet-50, nearly to that for Inception-v3
    and not to that for Mask R-CNN. The library's own documentation, where the table stands with one
    more line, says that memory is the largest resident set of the program, in single precision; and
    the library's Mask R-CNN has a ResNet-101. So no counting of results is what the paper measured.
    """
    return sweep(_counted, grid(model=models), COUNTED, title="Table II")


def _counted(model: str) -> list[dict[str, Any]]:
    from workbench.memory.optimiser import optimise

    graph = _traced(model)
    library = library_graph(graph, training=False)
    numbers = dict(library.nodes.group_by("kind").agg(pl.col("numbers").sum()).iter_rows())
    rows = []
    for counting, size in (("library", PAPER_BYTES), ("single", SINGLE)):
        plan = plan_memory(counted(library, size), "pebble", alignment=1)
        kept = int(plan.flow.sizes.sum())
        held = {"inputs": size * numbers["input"], "weights": SINGLE * numbers["parameter"]}
        rows.append(_row(counting, size, plan, kept, **held))
    every, ours = plan_memory(graph, "none"), plan_memory(optimise(graph).graph)
    held = {f"{kind}s": every.flow.held_bytes(kind) for kind in ("input", "weight")}
    rows.append(_row("workbench", SINGLE, ours, every.total_bytes, **held))
    about = {f"paper_{name}": stated(model, name) for name in ("without_mb", "with_mb")}
    return [{"image_px": SIDES[model], **about, **row} for row in rows]


def _row(
    counting: str, size: int, plan: MemoryPlan, kept: int, *, inputs: int, weights: int
) -> dict[str, Any]:
    """A row, with the bytes of all results, of the input and of the weights."""
    return {
        "counting": counting,
        "bytes_per_number": size,
        "planner": plan.planner,
        "parameter_bytes": weights,
        "without_bytes": kept + inputs + weights,
        "with_bytes": plan.total_bytes + inputs + weights,
        "bound_bytes": plan.bound_bytes + inputs + weights,
    }


def _traced(model: str) -> OperatorGraph:
    """Graph of inference on an image of Table II."""
    from workbench.memory import trace

    side = SIDES[check_name("model of Table II", model, SIDES)]
    return trace(model, (3, side, side))


def stated(model: str, name: str) -> float:
    """Seconds or MB that Table II states of a network of the zoo."""
    return paper_value(f"olpb.table2.{model}.{name}")


UNARY = frozenset({"relu", "exp", "log", "neg", "sqrt", "sigmoid", "clamp", "floor", "reshape"})
"""Operators on one array, number by number, and reshape: the result may lie where it did."""
BINARY = frozenset({"add", "sub", "mul", "div"})
"""The result may lie where an operand of its shape did."""


def counted(library: LibraryGraph, bytes_per_number: int) -> Dataflow:
    """Each operator of the library's granularity as a step that makes one result.

    What may be overwritten follows Owl's own code: operators of `UNARY` and `BINARY`. Parameters
    and the input stay outside.
    """
    made = library.nodes.filter(kind="operator")
    buffers = {node: at for at, node in enumerate(made["node"].to_list())}
    reading: dict[int, list[int]] = {}
    for source, target in library.edges.iter_rows():
        if source in buffers:
            reading.setdefault(target, []).append(source)
    shapes = dict(zip(made["node"], made["shape"].to_list(), strict=True))
    steps = []
    for node, name in made.select("node", "name").iter_rows():
        sources = reading.get(node, [])
        over = tuple(
            buffers[source]
            for source in sources
            if name in UNARY or (name in BINARY and shapes[source] == shapes[node])
        )
        reads = tuple(buffers[source] for source in sources)
        steps.append(Step(name, "forward", reads, (buffers[node],), over))
    read = {buffer for step in steps for buffer in step.reads}
    sizes = bytes_per_number * made["numbers"].to_numpy().astype(np.int64)
    return Dataflow(tuple(steps), sizes, frozenset(set(buffers.values()) - read))


COUNTING_TITLES = {"library": "library", "single": "library", "workbench": "PyTorch"}
"""Titles of the two ways to count results: by the library's operators, or by PyTorch's."""
_MEMORIES = {"without": "every result kept", "with": "planned"}


def draw_memory(frame: pl.DataFrame) -> alt.FacetChart:
    """Memory without and with a plan, a panel per network.

    Rows are the paper's figures, and whose operators' results are counted, at how many bytes a
    number.
    """
    counting = pl.col("counting").replace_strict(COUNTING_TITLES)
    named = frame.with_columns(
        counting=pl.format("{}, {} bytes", counting, "bytes_per_number"),
        panel=pl.format("{}, {} px", pl.col("model").replace(MODEL_TITLES), "image_px"),
    )
    stated = named.unique("panel", maintain_order=True).with_columns(counting=pl.lit("the paper"))
    drawn = pl.concat(
        rows.select("counting", "panel", kind=pl.lit(title), mb=mb)
        for name, title in _MEMORIES.items()
        for rows, mb in (
            (stated, pl.col(f"paper_{name}_mb")),
            (named, pl.col(f"{name}_bytes") / MB),
        )
    )
    order = ["the paper", *named["counting"].unique(maintain_order=True)]
    rows = alt.Y("counting:N", sort=order, title=None, axis=alt.Axis(labelLimit=0))
    kinds = list(_MEMORIES.values())
    base = alt.Chart().encode(y=rows, yOffset=alt.YOffset("kind:N", sort=kinds))
    bars = base.mark_bar().encode(
        x=alt.X("mb:Q", title="MB"), color=parts.colour("kind", kinds, title=None)
    )
    text = base.encode(x="mb:Q", text=alt.Text("mb:Q", format=",.0f"))
    numbers = text.mark_text(align="left", dx=3)
    title = ["Table II: memory of inference, with parameters", "by what is counted"]
    panels = drawn["panel"].unique(maintain_order=True).to_list()
    chart = alt.LayerChart(data=drawn, layer=[bars, numbers], height=120)
    return parts.facets(chart, "panel", panels, title, columns=1).resolve_scale(x="independent")


def _memory_ratio(model: str, frame: pl.DataFrame) -> Answer | None:
    """Memory without a plan over memory with one, as counted at the paper's bytes a number."""
    ratios = {
        row["counting"]: row["without_bytes"] / row["with_bytes"]
        for row in frame.filter(model=model).iter_rows(named=True)
    }
    if not ratios:
        return None
    off = frame.filter(model=model, counting="library").select(
        100 * (pl.col("without_bytes") / 1e6 / pl.col("paper_without_mb") - 1)
    )
    detail = (
        f"every result of {PAPER_BYTES} bytes (without: {off.item():+.1f} % off), pebble; "
        f"{ratios['single']:.2f} in single precision, {ratios['workbench']:.2f} by ours"
    )
    return Answer(ratios["library"], detail)


def _megabytes(model: str, memory: str, frame: pl.DataFrame) -> Answer | None:
    """Memory without or with a plan, as counted at the paper's bytes a number."""
    rows = frame.filter(model=model, counting="library")
    if rows.is_empty():
        return None
    detail = f"every result of {PAPER_BYTES} bytes, with parameters; the paper's pebble game"
    return Answer(rows[f"{memory}_bytes"][0] / MB, detail)


_RESIDENT = Cause(
    "data",
    "the library's documentation, where the table stands with one more line, says that memory is "
    "the largest resident set of the program, in single precision, and its Mask R-CNN has a "
    "ResNet-101: what was measured is not the sum of results that is counted here, with the eight "
    "bytes a number that give ResNet-50 without a plan",
)
TABLE2 = Figure(
    id="table2",
    compute=memory,
    chart=draw_memory,
    answers={
        f"olpb.table2.{model}.{name}": answer
        for model in SIDES
        for name, answer in (
            ("memory_ratio", partial(_memory_ratio, model)),
            ("without_mb", partial(_megabytes, model, "without")),
            ("with_mb", partial(_megabytes, model, "with")),
        )
    },
    causes={
        f"olpb.table2.{name}": _RESIDENT
        for name in (
            "inception_v3.with_mb",
            "resnet50.with_mb",
            "mask_rcnn.without_mb",
            "mask_rcnn.with_mb",
        )
    },
)


SECONDS = {"without_s": "plain_s", "build_s": "build_s", "execution_s": "execution_s"}
"""Seconds of Table II, with our columns; their sum with the optimisation is ``with_s``."""
TIMED: dict[str, Any] = {
    "model": pl.String,
    **dict.fromkeys(("image_px", "repeats"), pl.Int64),
    **dict.fromkeys(("build_s", "execution_s", "plain_s"), pl.Float64),
    **dict.fromkeys(("arena_bytes", "plain_bytes"), pl.Int64),
    **dict.fromkeys(("paper_build_s", "paper_execution_s", "paper_without_s"), pl.Float64),
}


def seconds(models: Sequence[str], repeats: int, folder: Path | None = None) -> pl.DataFrame:
    """Time of inference without and with a plan (Table II), on this machine.

    A row a model: ``model, image_px, repeats``; ``build_s``, once, to trace the module, optimise
    the graph, plan its memory and make the arena; ``execution_s`` there, and ``plain_s`` of the
    module as it is, medians of repeats by turns; ``arena_bytes``, with what operators allocate
    beside it, and ``plain_bytes``, the most that PyTorch's allocator holds, both without weights;
    and the paper's, ``paper_build_s, paper_execution_s, paper_without_s``.
    """
    shared = {"repeats": repeats}
    return sweep(
        _timed,
        grid(model=models),
        TIMED,
        title="Table II, times",
        shared=shared,
        folder=folder,
    )


def _timed(model: str, repeats: int) -> dict[str, Any]:
    import torch

    from workbench.memory import trace
    from workbench.memory.measured import measure_memory
    from workbench.memory.optimiser import optimise
    from workbench.zoo import build

    trace("lenet5")  # the first tracing imports
    side = SIDES[check_name("model of Table II", model, SIDES)]
    module = build(model, "cpu")
    began_s = time.perf_counter()
    graph = optimise(trace(module, (3, side, side))).graph
    traced_s = time.perf_counter() - began_s
    measured = measure_memory(graph, torch.rand(1, 3, side, side), repeats=repeats)
    return {
        "image_px": side,
        "build_s": traced_s + measured.build_s,
        "execution_s": statistics.median(measured.arena_s),
        "plain_s": statistics.median(measured.plain_s),
        "arena_bytes": measured.arena_bytes + measured.beside_bytes,
        "plain_bytes": measured.plain_bytes,
        **{f"paper_{name}": stated(model, name) for name in SECONDS},
    }


def draw_seconds(frame: pl.DataFrame) -> alt.FacetChart:
    """Seconds without and with a plan, on this machine and in the paper, a panel per network."""
    shown = {
        "without": ("plain_s", "paper_without_s"),
        "execution": ("execution_s", "paper_execution_s"),
        "build": ("build_s", "paper_build_s"),
    }
    rows = [
        (model_title(row), where, name, row[column])
        for row in frame.to_dicts()
        for name, columns in shown.items()
        for where, column in zip(("ours", "the paper's"), columns, strict=True)
    ]
    drawn = pl.DataFrame(rows, ["panel", "where", "part", "seconds"], orient="row")
    drawn = drawn.with_columns(
        way=pl.when(part="without").then(pl.lit("without plan")).otherwise(pl.lit("with plan"))
    )
    panels = drawn["panel"].unique(maintain_order=True).to_list()
    bars = (
        alt.Chart(drawn, height=36)
        .mark_bar()
        .encode(
            x=alt.X("sum(seconds):Q", title="seconds"),
            y=alt.Y("way:N", sort=["without plan", "with plan"], title=None),
            color=parts.colour("part", list(shown)),
            order=alt.Order("part:N", sort="descending"),
            row=alt.Row("panel:N", title=None, sort=panels),
            column=alt.Column("where:N", title=None, sort="descending"),
        )
    )
    repeats = frame["repeats"][0]
    title = ["Table II: time of inference", f"median of {repeats}, timed"]
    return bars.properties(title=title).resolve_scale(x="independent")


def _time_ratio(model: str, frame: pl.DataFrame) -> Answer:
    """Seconds to build and to execute in the arena over those of the module as it is."""
    rows = frame.filter(model=model)
    if rows.is_empty():
        return Answer(not_run="is timed at default scale")
    row = rows.row(0, named=True)
    ratio = (row["build_s"] + row["execution_s"]) / row["plain_s"]
    alone = row["execution_s"] / row["plain_s"]
    detail = f"execution alone {alone:.2f} x; tracing and planning {row['build_s']:.2g} s, once"
    return Answer(ratio, detail, timed=True)


def _seconds(model: str, name: str, frame: pl.DataFrame) -> Answer:
    """Seconds of this machine."""
    rows = frame.filter(model=model)
    if rows.is_empty():
        return Answer(not_run="is timed at default scale")
    whole = rows.with_columns(with_s=pl.col("build_s") + pl.col("execution_s"))
    seconds = whole[SECONDS.get(name, name)][0]
    return Answer(seconds, "of PyTorch, on this machine", timed=True)


def _time_saved(model: str, frame: pl.DataFrame) -> Answer:
    """Percent of the seconds of the module as it is."""
    ratio = _time_ratio(model, frame)
    if ratio.ours is None:
        return ratio
    return replace(ratio, ours=100 * (1 - ratio.ours))


_LAPTOP = Cause(
    "data",
    "the seconds are those of the paper's library, Owl, on its laptop; neither is available. "
    "There execution alone is faster once results have their places; PyTorch uses the same kernels "
    "with a plan and without, and frees results at once, so that execution "
    "saves less than tracing and planning take",
)
_SAVED = "olpb.table2.mask_rcnn.time_saved"
TABLE2_TIMES = Figure(
    id="table2_times",
    compute=seconds,
    chart=draw_seconds,
    sizes={
        "models": Scaled(smoke=("resnet50",), default=tuple(SIDES), paper=tuple(SIDES)),
        "repeats": Scaled(smoke=1, default=3, paper=30),
    },
    answers={
        f"olpb.table2.{model}.{name}": answer
        for model in SIDES
        for name, answer in (
            ("time_ratio", partial(_time_ratio, model)),
            *((name, partial(_seconds, model, name)) for name in (*SECONDS, "with_s")),
        )
    }
    | {_SAVED: partial(_time_saved, "mask_rcnn")},
    causes={
        _SAVED: _LAPTOP,
        **{
            f"olpb.table2.{model}.{name}": _LAPTOP
            for model in SIDES
            for name in ("time_ratio", *SECONDS, "with_s")
        },
    },
    recorded=True,
    timings=True,
)
