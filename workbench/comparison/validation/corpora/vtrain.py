"""Training of GPT-like models on 64 to 512 A100s, as the authors of vTrain measured it.

Megatron-DeepSpeed with degrees of tensor, data and pipeline parallelism, recomputing every layer.
Layers are priced from their sizes alone, by a roofline: FLOPs at a rate, and bytes of what is not a
matrix product at another. Both rates are fitted on a tenth of the rows.

Source: Bang et al. 2024, vTrain (MICRO), its public repository; multi-node table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from workbench.clusters import Link
from workbench.comparison.validation.corpus import Constants, Corpus, Values
from workbench.pipelines import Plan, Problem, Stage, iteration

VOCABULARY, HALF_BYTES = 50_257, 2
GPUS = 8
"""GPUs of a node, which share its interface."""

NODE_BYTES_PER_S = 100e9
"""Interface of a node, 800 Gbit/s (their configurations)."""

NVLINK_BYTES_PER_S = 235e9
"""What an all-reduce moves a second over NVLink of A100s (bus bandwidth of NVIDIA's nccl-tests)."""

PEAK_FLOPS_PER_S = 312e12


class Roofline(NamedTuple):
    """Rates of a GPU: FLOPs of matrix products, and bytes that everything else moves."""

    flops_per_s: float
    bytes_per_s: float


def prepare(table: pl.DataFrame) -> pl.DataFrame:
    """Rows with ``model``, the size by which errors are shown."""
    return table.with_columns(model=pl.format("{} billion", "parameters_b"))


def block_s(row: Mapping[str, Any], rates: Roofline) -> tuple[float, float]:
    """Seconds of a transformer block forward, and backward with its recomputation.

    For a micro-batch of b samples, s tokens and h hidden values on t tensor-parallel GPUs: FLOPs
    are 24 b s h^2 + 4 b s^2 h (Narayanan et al. 2021, Megatron, Sec. 5.1); bytes moved are those of
    the activations, s b h (10 + 24 / t + 5 a s / (h t)) with a heads (Korthikanti et al. 2022,
    Eq. 2). Two all-reduces of activations each way.
    """
    b, s, h = row["micro_batch"], row["sequence"], row["hidden"]
    degree, heads = row["tp"], row["heads"]
    product_s = (24 * b * s * h * h + 4 * b * s * s * h) / degree / rates.flops_per_s
    moved = s * b * h * (10 + 24 / degree) + 5 * heads * s * s * b / degree
    moved_s = moved / rates.bytes_per_s
    bytes_per_s = NVLINK_BYTES_PER_S if degree <= GPUS else NODE_BYTES_PER_S
    reduce_s = 2 * 2 * (degree - 1) / degree * HALF_BYTES * b * s * h / bytes_per_s
    forward_s = product_s + moved_s + reduce_s
    return forward_s, forward_s + 2 * product_s + 2 * moved_s + reduce_s


def pipeline(row: Mapping[str, Any], rates: Roofline) -> tuple[Problem, Plan]:
    """One of the row's data-parallel pipelines, in micro-batches; the logits are its last layer."""
    layers, stages, count = row["layers"], row["pp"], row["microbatches"]
    forward_s, backward_s = block_s(row, rates)
    tokens = row["micro_batch"] * row["sequence"]
    logits_s = 2 * tokens * row["hidden"] * VOCABULARY / row["tp"] / rates.flops_per_s
    bounds = [layers * stage // stages for stage in range(stages + 1)]
    bounds[-1] += 1
    link = Link(8 * NODE_BYTES_PER_S * min(1.0, row["tp"] / GPUS))
    ends = [(stage, stage + 1) for stage in range(stages - 1)]
    problem = Problem(
        forward_s=np.tile([forward_s] * layers + [logits_s], (stages, 1)),
        backward_s=np.tile([backward_s] * layers + [2 * logits_s], (stages, 1)),
        update_s=np.zeros((stages, layers + 1)),
        param_bytes=np.zeros(layers + 1),
        output_bytes=np.full(layers + 1, float(HALF_BYTES * tokens * row["hidden"])),
        links={pair: link for a, b in ends for pair in ((a, b), (b, a))},
        batch=count,
    )
    plan = Plan(
        stages=tuple(
            Stage(bounds[stage] + 1, bounds[stage + 1], ((stage, 1),)) for stage in range(stages)
        ),
        microbatches=count,
        blocking=stages > 1,
    )
    return problem, plan


def step_s(row: Mapping[str, Any], rates: Roofline) -> float:
    """Seconds of a step: a pipeline's, then the all-reduce of gradients among the pipelines.

    A GPU's ring has its part of the node's interface.
    """
    hidden, replicas = row["hidden"], row["dp"]
    parameters = 12 * hidden**2 * row["layers"] + VOCABULARY * hidden
    gradient_bytes = HALF_BYTES * parameters / (row["tp"] * row["pp"])
    reduce_s = 2 * (replicas - 1) / replicas * gradient_bytes / (NODE_BYTES_PER_S / GPUS)
    return float(iteration(*pipeline(row, rates)).total_s + reduce_s)


def predict(rows: pl.DataFrame, constants: Constants) -> Values:
    """Seconds of each row's step."""
    rates = Roofline(1e9 * constants["gflops"], 1e9 * constants["gbytes_per_s"])
    return np.array([step_s(row, rates) for row in rows.iter_rows(named=True)])


def naive(rows: pl.DataFrame) -> Values:
    """Seconds of all matrix products at the peak of all GPUs."""
    hidden, layers, tokens = rows["hidden"], rows["layers"], rows["global_batch"] * rows["sequence"]
    block = 24 * hidden**2 + 4 * rows["sequence"] * hidden
    flops = tokens * (4 * layers * block + 6 * hidden * VOCABULARY)
    return (flops / rows["gpus"] / PEAK_FLOPS_PER_S).to_numpy()


CORPUS = Corpus(
    title="GPT-like models on 64 to 512 A100s (vTrain)",
    source=(
        "The numbers stand in VIA-Research/vTrain, data/ground_truth_multi.csv, MIT text: a row "
        "for each, numbered from 0 (docs/how-to/validate.md)"
    ),
    file="vtrain_multi.csv",
    columns={
        "row": pl.Int64,
        "parameters_b": pl.Float64,
        **dict.fromkeys(
            (
                *("gpus", "tp", "dp", "pp", "global_batch", "micro_batch", "microbatches"),
                *("layers", "hidden", "heads", "sequence"),
            ),
            pl.Int64,
        ),
        "step_ms": pl.Float64,
    },
    key=("row",),
    measured="step_s",
    most_s=1000,
    groups="model",
    prepare=prepare,
    constants={"gflops": (200_000, 1000, 312_000), "gbytes_per_s": (1000, 10, 2039)},
    predict=predict,
    naive=naive,
    alike=("model",),
    near=("tp", "dp", "pp", "global_batch", "micro_batch"),
    without={"bytes beside matrix products": {"gbytes_per_s": 1e9}},
    goal=0.12,
    kind="pipelines",
)
