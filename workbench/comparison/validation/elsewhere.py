"""Recorded predictions of what others measured: figures of notebook 08.

    WORKBENCH_DATA=~/data workbench record validation

records predictions and errors, without the corpora's rows.
"""

from __future__ import annotations

import polars as pl

from workbench.clusters import load_constants
from workbench.comparison.validation import coverage
from workbench.comparison.validation.against import ablation, errors, found, judged, left_out
from workbench.reproduction import recordings
from workbench.reproduction.figure import Figure
from workbench.utils.checks import UserError


def _record_predictions() -> pl.DataFrame:
    """Predictions and errors of all corpora: no row of theirs."""
    kept = "set", "role", pl.col("predicted_s", "predicted_error").cast(pl.Float32)
    return pl.concat(
        judged(corpus, rows, load_constants("validation", name)).select(
            pl.lit(name).alias("corpus"), *kept
        )
        for name, (corpus, rows) in found().items()
    )


def _record_errors() -> pl.DataFrame:
    return pl.concat(
        (
            errors(judged(corpus, rows, load_constants("validation", name)), corpus.kind).select(
                pl.lit(name).alias("corpus"), pl.lit(100 * corpus.goal).alias("goal"), pl.all()
            )
            for name, (corpus, rows) in found().items()
        ),
        how="vertical_relaxed",
    )


def _record_parts() -> pl.DataFrame:
    return pl.concat(
        ablation(corpus, rows).select(pl.lit(name).alias("corpus"), pl.all())
        for name, (corpus, rows) in found().items()
        if corpus.without
    )


def _record_left_out() -> pl.DataFrame:
    corpus, rows = found()["adaptdl"]
    return left_out(corpus, rows).select(pl.lit("adaptdl").alias("corpus"), pl.all())


def _record_coverage() -> pl.DataFrame:
    corpora = found()
    constants = {name: load_constants("validation", name) for name in corpora}
    ratios = coverage.ratios(corpora, constants)
    models = coverage.new_models(ratios)
    return coverage.held_out(ratios).join(
        models, on=["kind", "corpus"], how="left", maintain_order="left"
    )


FIGURES = tuple(
    Figure(id=name, compute=compute, recorded=True)
    for name, compute in {
        "predictions": _record_predictions,
        "errors": _record_errors,
        "parts": _record_parts,
        "left_out": _record_left_out,
        "coverage": _record_coverage,
    }.items()
)


def recorded(figure: str) -> pl.DataFrame:
    """Recorded rows of a figure; prints what they are."""
    recording = recordings.load("validation", figure)
    if recording is None:
        raise UserError(f"{figure} is not recorded; `workbench record validation {figure}` does it")
    print(recording)
    return recording.frame
