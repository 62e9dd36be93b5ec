"""Answers to the claims of Table II, and why some are missed."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from workbench.olpb.paper.titles import MB
from workbench.reproduction.claims import Answer, Cause

SECONDS = {"without_s": "plain_s", "build_s": "build_s", "execution_s": "execution_s"}
"""Seconds of Table II, with our columns."""
SIDES: Mapping[str, int] = {"inception_v3": 299, "resnet50": 299, "mask_rcnn": 768}
"""Pixels of an image's side in Table II, by network."""
PAPER_BYTES = 8
"""Bytes a number of results, as ResNet-50's line of Table II adds up."""


def memory_ratio(model: str, frame: pl.DataFrame) -> Answer | None:
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


def megabytes(model: str, memory: str, frame: pl.DataFrame) -> Answer | None:
    """Memory without or with a plan, as counted at the paper's bytes a number."""
    rows = frame.filter(model=model, counting="library")
    if rows.is_empty():
        return None
    detail = f"every result of {PAPER_BYTES} bytes, with parameters; the paper's pebble game"
    return Answer(rows[f"{memory}_bytes"][0] / MB, detail)


def time_ratio(model: str, frame: pl.DataFrame) -> Answer:
    """Seconds to build and to execute in the arena over those of the module as it is."""
    rows = frame.filter(model=model)
    if rows.is_empty():
        return Answer(not_run="is timed at default scale")
    row = rows.row(0, named=True)
    ratio = (row["build_s"] + row["execution_s"]) / row["plain_s"]
    alone = row["execution_s"] / row["plain_s"]
    detail = f"execution alone {alone:.2f} x; tracing and planning {row['build_s']:.2g} s, once"
    return Answer(ratio, detail, timed=True)


def seconds(model: str, name: str, frame: pl.DataFrame) -> Answer:
    """Seconds of this machine."""
    rows = frame.filter(model=model)
    if rows.is_empty():
        return Answer(not_run="is timed at default scale")
    return Answer(rows[SECONDS[name]][0], "of PyTorch, on this machine", timed=True)


_RESIDENT = Cause(
    "data",
    "the library's documentation, where the table stands with one more line, says that memory is "
    "the largest resident set of the program, in single precision, and its Mask R-CNN has a "
    "ResNet-101: what was measured is no sum of results, which is all that can be counted here",
)
MEMORY_CAUSES = {
    f"olpb.table2.{name}": _RESIDENT
    for name in (
        "inception_v3.with_mb",
        "resnet50.with_mb",
        "mask_rcnn.without_mb",
        "mask_rcnn.with_mb",
    )
}
_LAPTOP = Cause(
    "data",
    "seconds are of the paper's library, Owl, on its laptop, where execution alone takes less time "
    "once results have their places; PyTorch computes by the same kernels with a plan and "
    "without, and frees results at once, so nothing pays for tracing and planning",
)
TIME_CAUSES = {
    f"olpb.table2.{model}.{name}": _LAPTOP for model in SIDES for name in ("time_ratio", *SECONDS)
}
