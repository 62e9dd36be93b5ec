"""Layers trained on phones: FLASH (WWW 2021).

DL4J computes on one core, an operator after the other, so that a layer takes the node's overhead a
call, then its FLOPs, then its bytes. A call is a pass over the network, and each time step of an
LSTM. How often DL4J moves each parameter and each output is the same on every phone, and fitted.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from workbench.comparison.validation.corpus import Constants, Corpus, Values
from workbench.profiles.layer_times import work_s

FLOAT_BYTES = 4
UPDATE_PASSES = 5
"""Passes over an embedding's parameters: clear and write the gradient, read it and the parameter,
write that. The others are counted in units of this."""


def prepare(table: pl.DataFrame) -> pl.DataFrame:
    """Rows with ``calls``, ``flops`` and ``*_bytes`` of a training step."""
    is_lstm, is_embedding = pl.col("layer") == "lstm", pl.col("layer") == "embedding"
    sizes, tokens = pl.col("in_size") * pl.col("out_size"), pl.col("batch") * pl.col("steps")
    parameters = pl.when(is_lstm).then(4 * (sizes + pl.col("out_size").pow(2))).otherwise(sizes)
    return table.with_columns(
        calls=pl.when(is_lstm).then(1 + pl.col("steps")).otherwise(1),
        flops=pl.when(is_embedding).then(0).otherwise(6 * tokens * parameters),
        parameter_bytes=FLOAT_BYTES * parameters,
        output_bytes=FLOAT_BYTES * tokens * pl.col("out_size"),
    ).cast({"flops": pl.Float64})


def predict(rows: pl.DataFrame, constants: Constants) -> Values:
    """Seconds of a training step of one layer on the phone."""
    layers = rows["layer"].to_list()
    passes = np.array([constants.get(f"{layer} passes", float(UPDATE_PASSES)) for layer in layers])
    passes += np.where(
        rows["layer"] == "lstm", rows["steps"].to_numpy() * constants["lstm passes a step"], 0
    )
    outputs = np.array([constants[f"{layer} output passes"] for layer in layers])
    moved = passes * rows["parameter_bytes"].to_numpy() + outputs * rows["output_bytes"].to_numpy()
    seconds = np.empty(len(rows))
    for (phone,), group in rows.with_row_index("at").group_by("phone"):
        at = group["at"].to_numpy()
        flops_s = group["flops"].to_numpy() / (1e9 * constants[f"{phone} gflops"])
        bytes_per_s = 1e9 * constants[f"{phone} gbytes_per_s"]
        overhead_s = 1e-6 * constants[f"{phone} overhead_us"] * group["calls"].to_numpy()
        if "roofline" in constants:
            flops_s = np.maximum(flops_s - moved[at] / bytes_per_s, 0)
        seconds[at] = work_s(flops_s, moved[at], bytes_per_s=bytes_per_s, overhead_s=overhead_s)
    return seconds


def naive(rows: pl.DataFrame) -> Values:
    """Seconds in proportion to FLOPs, of an embedding to parameters, by phone and layer."""
    work = pl.when(pl.col("flops") > 0).then("flops").otherwise("parameter_bytes")
    rate = pl.when(role="fit").then(pl.col("seconds") / work).median().over("phone", "layer")
    return rows.select((work * rate).alias("seconds"))["seconds"].to_numpy()


CORPUS = Corpus(
    title="Layers on phones (FLASH)",
    source=(
        "The numbers stand in PKU-Chengxu/FLASH, models/utils/device_util/regression/PHONE/"
        "LAYER.json, BSD 2-clause: undo the scaling of sizes (docs/how-to/validate.md)"
    ),
    file="flash_layers.csv",
    columns={
        "phone": pl.String,
        "layer": pl.String,
        **dict.fromkeys(("in_size", "out_size", "batch", "steps"), pl.Int64),
        "seconds": pl.Float64,
    },
    key=("phone", "layer", "in_size", "out_size", "batch", "steps"),
    measured="seconds",
    most_s=100,
    groups="phone",
    prepare=prepare,
    by=lambda table: table["phone"].unique().sort().to_list(),
    constants={
        "{} overhead_us": (40_000, 100, 1e6),
        "{} gflops": (8, 0.1, 1000),
        "{} gbytes_per_s": (1, 0.05, 100),
        "lstm passes": (4, 0.01, 1000),
        "lstm passes a step": (4, 0.01, 1000),
        "output passes": (10, 0.01, 1000),
        "embedding output passes": (80, 0.01, 10_000),
        "lstm output passes": (600, 0.01, 10_000),
        "output output passes": (50, 0.01, 10_000),
    },
    predict=predict,
    naive=naive,
    alike=("phone", "layer"),
    near=("in_size", "out_size", "batch", "steps"),
    without={
        "bytes that an output moves": dict.fromkeys(
            [f"{layer} output passes" for layer in ("embedding", "lstm", "output")], 0
        ),
        "overhead of calls": {"{} overhead_us": 0},
        "FLOPs and bytes one after the other (a roofline)": {"roofline": 1},
    },
    goal=0.12,
    kind="layers",
)
