"""Jobs of several workers on K80, P100 and V100: Gavel (OSDI 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import polars as pl

from workbench.comparison.validation.corpus import Constants, Corpus, Values
from workbench.comparison.validation.networks import gradient_buckets
from workbench.sharding.collective_costs import overlapped_s, ring_s
from workbench.utils.checks import UserError

MIXED = (pl.col("gpu") == "v100") & pl.col("same_server")
APART = "v100 in one server, listed apart"
"""Measured on machines of several kinds, by number of workers: no constant is fitted on them."""

RATE_OF = {APART: "p100 within"}
"""Place -> another, by whose rate it is predicted."""

MOST_A_SERVER = {"p100": 4}
"""Clouds that rent P100s put at most four into a machine, so that eight are in two."""

ALONE = ("gpu", "model", "batch_per_worker")


def prepare(table: pl.DataFrame) -> pl.DataFrame:
    """Rows of several workers, with ``compute_s``: one worker's step with the same batch.

    It is that of one worker in one server: single workers of other rows were not measured again.
    """
    single = table.filter("same_server", pl.col("role") == "given")
    rows = table.filter(pl.col("role") != "given").join(
        single.select(*ALONE, compute_s="step_s"), on=ALONE, how="left", nulls_equal=True
    )
    missing = rows.filter(pl.col("compute_s").is_null()).select(ALONE)
    for gpu, model, batch in missing.iter_rows():
        raise UserError(f"{model} of batch {batch} has no row of one worker on {gpu}; add it")
    place = (
        pl.when(~pl.col("same_server"))
        .then(pl.lit("spread"))
        .when(pl.col("workers") <= pl.col("gpu").replace_strict(MOST_A_SERVER, default=8))
        .then(pl.lit("within"))
        .otherwise(pl.lit("in two servers"))
    )
    return rows.with_columns(
        place=pl.when(MIXED).then(pl.lit(APART)).otherwise(pl.col("gpu") + " " + place),
        role=pl.when(MIXED).then(pl.lit("apart")).otherwise("role"),
    )


def predict(rows: pl.DataFrame, constants: Constants) -> Values:
    """Ring over the workers, in buckets that overlap the backward pass."""
    seconds = np.empty(len(rows))
    priced = rows["place"].replace(RATE_OF)
    rates = np.array([constants[f"{place} gbytes_per_s"] for place in priced])
    numbered = rows.with_columns(rate=pl.Series(rates)).with_row_index("at")
    for (model,), group in numbered.group_by("model"):
        workers, rate, compute_s = (
            group[name].to_numpy() for name in ("workers", "rate", "compute_s")
        )
        seconds[group["at"].to_numpy()] = overlapped_s(
            compute_s,
            constants.get("first_gradient", 1.0) * compute_s,
            gradient_buckets(str(model)),
            partial(ring_s, workers=workers, bytes_per_s=1e9 * rate),
        )
    return seconds


def places(table: pl.DataFrame) -> Sequence[str]:
    """Kinds of GPUs, within a server and spread over several."""
    return table["place"].replace(RATE_OF).unique().sort().to_list()


CORPUS = Corpus(
    title="Workers on three kinds of GPU (Gavel)",
    source=(
        "The numbers stand in stanford-futuredata/gavel, scheduler/physical_cluster_throughputs."
        "json, MIT: a row for each job, with step_s = workers / throughput "
        "(docs/how-to/validate.md)"
    ),
    file="gavel.csv",
    columns={
        "gpu": pl.String,
        "same_server": pl.Boolean,
        "model": pl.String,
        "batch_per_worker": pl.Int64,
        "workers": pl.Int64,
        "step_s": pl.Float64,
    },
    key=("gpu", "same_server", "model", "batch_per_worker", "workers"),
    measured="step_s",
    most_s=60,
    groups="place",
    given=pl.col("workers") == 1,
    prepare=prepare,
    by=places,
    constants={
        "{} gbytes_per_s": (1, 0.05, 20),
    },
    predict=predict,
    naive=lambda rows: rows["compute_s"].to_numpy(),
    alike=("place", "model"),
    near=("batch_per_worker", "workers"),
    without={
        "averaging after the backward pass": {"first_gradient": 1 / 3},
    },
    goal=0.12,
    kind="averaging",
)
