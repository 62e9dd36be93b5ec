"""Answers to Table II."""

from __future__ import annotations

from functools import partial

import polars as pl

from workbench.claims import Answer, Cause, Table
from workbench.olpb.costs.library import NORMALISATION

MODELS = ("inception_v3", "resnet50", "mask_rcnn")
PAPER_BYTES = 8
"""Bytes a number of the first way of counting, as ResNet-50's line of the table adds up."""


def at_paper_setting(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Rows of `table2` counted as the paper's figures add up; other frames as they are."""
    if name != "table2":
        return frame
    rows = frame.filter(normalisation_operators=len(NORMALISATION))
    counted = pl.col("counting") != "library"
    return rows if rows.filter(~counted, bytes_per_number=PAPER_BYTES).height else rows.clear()


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


CAUSES = {
    f"olpb.table2.{model}.time_ratio": Cause(
        "data",
        "seconds are of the paper's library, Owl, on its laptop, where execution alone takes "
        f"{alone} of the time once results have their places; PyTorch computes by the same kernels "
        "with a plan and without, and frees results at once, so nothing pays for tracing and "
        "planning",
    )
    for model, alone in (("inception_v3", 0.4), ("resnet50", 0.77), ("mask_rcnn", 0.73))
}

ANSWERS: Table = {
    f"olpb.table2.{model}.{claim}": (name, partial(answer, model))
    for model in MODELS
    for claim, name, answer in (
        ("memory_ratio", "table2", _memory_ratio),
        ("time_ratio", "table2_times", _time_ratio),
    )
}
