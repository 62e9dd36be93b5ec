"""Placements of up to 16 T4s on up to four servers: AdaptDL (Pollux, OSDI 2021)."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import polars as pl
from scipy.stats import norm

from workbench.comparison.validation.corpus import Constants, Corpus, Values
from workbench.comparison.validation.networks import gradient_buckets
from workbench.sharding.collective_costs import overlapped_s, ring_s
from workbench.utils.checks import UserError

IMAGE_SIDES = tuple(range(320, 609, 32))
"""Sides of YOLOv3's images, of which a replica draws one for a batch."""

CLIPS = "deepspeech2"
"""Network whose samples are clips of different lengths."""


def prepare(table: pl.DataFrame) -> pl.DataFrame:
    """Rows of several GPUs, with ``compute_s``: one GPU's step with the same local batch."""
    alone = table.filter(role="given").select("model", "local_batch", compute_s="step_s")
    rows = table.filter(pl.col("role") != "given").join(
        alone, on=["model", "local_batch"], how="left"
    )
    for model, batch in rows.filter(pl.col("compute_s").is_null())["model", "local_batch"].rows():
        raise UserError(f"{model} has no row of one GPU with a local batch of {batch}; add it")
    return rows


def predict(rows: pl.DataFrame, constants: Constants) -> Values:
    """Ring over servers that share their interfaces, in buckets that overlap the backward pass.

    Both directions between the same two servers share what a pair of servers carries: a ring over
    two servers uses both, over more servers one. The step waits for the slowest replica, where
    samples differ in size.
    """
    seconds = np.empty(len(rows))
    numbered = rows.with_row_index("at")
    for (model,), group in numbered.group_by("model"):
        servers, replicas = (group[name].to_numpy() for name in ("nodes", "replicas"))
        stream = constants["stream_gbytes_per_s"]
        rate = np.select(
            [servers == 1, servers == 2],
            [constants["server_gbytes_per_s"], stream * constants["pair_over_stream"]],
            stream,
        )
        overhead_s = 1e-6 * np.where(servers == 1, constants["server_us"], constants["stream_us"])
        compute_s = group["compute_s"].to_numpy() * _slowest(str(model), group, constants)
        seconds[group["at"].to_numpy()] = overlapped_s(
            compute_s,
            constants["first_gradient"] * compute_s,
            gradient_buckets(str(model)),
            partial(ring_s, workers=replicas, bytes_per_s=1e9 * rate, overhead_s=overhead_s),
        )
    return seconds


def _slowest(model: str, group: pl.DataFrame, constants: Constants) -> Values:
    """Computing of the slowest replica over that of one alone."""
    replicas = group["replicas"].to_numpy()
    if model == "yolov3":
        areas = np.square(IMAGE_SIDES) / np.square(IMAGE_SIDES).mean()
        share = constants.get("areas_differ", 1.0)
        return np.asarray(1 + share * (_largest(tuple(areas))[replicas] - 1))
    if model != CLIPS:
        return np.ones(len(group))
    spread = constants["clips_differ"] / np.sqrt(group["local_batch"].to_numpy())
    normal = norm.ppf((np.arange(200) + 0.5) / 200)
    return np.asarray(1 + spread * _largest(tuple(normal))[replicas])


@cache
def _largest(values: tuple[float, ...], most: int = 64) -> Values:
    """Mean of the largest of 0 to `most` draws from equally likely values."""
    below = np.arange(len(values) + 1) / len(values)
    powers = below ** np.arange(most + 1)[:, None]
    largest: Values = np.diff(powers) @ np.sort(np.asarray(values, dtype=np.float64))
    return largest


CORPUS = Corpus(
    title="Placements of T4s on servers (AdaptDL)",
    source=(
        "The numbers stand in petuum/adaptdl, branch osdi21-artifact, Apache 2.0: put the tables "
        "sched/traces/MODEL/placements.csv below each other, with columns model, nodes and "
        "replicas (docs/how-to/validate.md)"
    ),
    file="adaptdl_placements.csv",
    columns={
        "model": pl.String,
        "placement": pl.String,
        "nodes": pl.Int64,
        "replicas": pl.Int64,
        "local_batch": pl.Int64,
        "step_s": pl.Float64,
    },
    key=("model", "placement", "local_batch"),
    measured="step_s",
    most_s=60,
    groups="model",
    given=pl.col("replicas") == 1,
    prepare=prepare,
    constants={
        "server_gbytes_per_s": (3, 0.5, 12),
        "stream_gbytes_per_s": (0.6, 0.1, 6),
        "pair_over_stream": (0.7, 0.3, 1),
        "server_us": (50, 0.1, 2000),
        "stream_us": (50, 0.1, 2000),
        "first_gradient": (0.5, 0.2, 1),
        "clips_differ": (0.35, 0.01, 3),
    },
    predict=predict,
    naive=lambda rows: rows["compute_s"].to_numpy(),
    alike=("model",),
    near=("nodes", "replicas", "local_batch"),
    without={
        "overlap with the backward pass": {"first_gradient": 1},
        "gradients from the start of the backward pass": {"first_gradient": 1 / 3},
        "pairs of servers share both directions": {"pair_over_stream": 1},
        "seconds of each step of a ring": {"server_us": 0, "stream_us": 0},
        "waiting for the largest images": {"areas_differ": 0},
        "waiting for the longest clips": {"clips_differ": 0},
    },
    goal=0.09,
    kind="averaging",
)
