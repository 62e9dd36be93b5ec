"""Pipelines of replicated stages on GH200s, as the authors of Sailor measured them.

The seconds of a layer and the bandwidth of a link are measured apart and taken as they are, so no
constant is fitted: `workbench.pipelines` combines them to the seconds of a step.

Source: Strati et al. 2025, Sailor (SOSP), its public repository; plans of the cluster `clariden`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.clusters import Link
from workbench.comparison.validation.corpus import Corpus
from workbench.pipelines import Plan, Problem, Stage, iteration

GPU, ZONE = "GH-96", "us-central1-a"
SEQUENCE, VOCABULARY = 2048, 50_304
HIDDEN = {"OPT-350": 1024, "GPT-Neo-2.7": 2560}
HEAD_IS_LEFT_OUT = "GPT-Neo"
"""Models whose profile lacks the matrix product of the head; its FLOPs say what it takes."""

FLOAT_BYTES = 4


class Layers(NamedTuple):
    """Layers of a model on the tensor-parallel GPUs of a node, for a micro-batch; L = layer.

    Attributes
    ----------
    forward_s, backward_s, update_s
        Seconds. Shape (L,).
    parameters
        Of one GPU. Shape (L,).
    """

    forward_s: NDArray[np.float64]
    backward_s: NDArray[np.float64]
    update_s: NDArray[np.float64]
    parameters: NDArray[np.float64]


@dataclass(frozen=True)
class Measurements:
    """Layers and links, which were measured apart from the plans.

    Attributes
    ----------
    profiles, layers_of, links
        Seconds of layers, sizes of layers, and curves of bandwidth.
    """

    profiles: pl.DataFrame
    layers_of: pl.DataFrame
    links: pl.DataFrame

    def layers(self, plan: Mapping[str, Any]) -> Layers:
        """Layers of the plan's model, tensor-parallel degree and micro-batch."""
        model, degree = plan["model"], plan["tp"]
        seconds = self.profiles.filter(model=model, gpu=GPU, mbs=plan["mbs"], tp=degree)
        sizes = self.layers_of.filter(model=model, tp=degree).sort("layer")
        forward_s, backward_s, update_s = (
            seconds.sort("layer")[column].to_numpy().copy()
            for column in ("forward_s", "backward_s", "update_s")
        )
        parameters = sizes["parameters"].to_numpy().astype(float)
        if model.startswith(HEAD_IS_LEFT_OUT):
            # A block multiplies by 12 hidden^2 weights, and attends to the whole sequence.
            of_block = VOCABULARY / (12 * HIDDEN[model] + 2 * SEQUENCE)
            forward_s[-1] += of_block * forward_s[2]
            backward_s[-1] += of_block * backward_s[2]
        # The update was measured on a model of embedding, two blocks and head.
        profiled = parameters[0] + 2 * parameters[2] + parameters[-1]
        return Layers(
            forward_s,
            backward_s,
            update_s * parameters / profiled,
            parameters,
        )

    def node_bytes_per_s(self, pairs: int, message_bytes: float) -> float:
        """Bandwidth between two nodes if `pairs` of their GPUs send messages of this size."""
        row = (
            self.links.filter(scope="inter_node", zone_a=ZONE, zone_b=ZONE, gpu_a=GPU, gpu_b=GPU)
            .filter(gpus_a=pairs, gpus_b=pairs)
            .row(0, named=True)
        )
        size = math.log2(message_bytes / 1e6)
        curve = 1e9 * (row["c2"] * size**2 + row["c1"] * size + row["c0"])
        return float(min(curve, row["max_bytes_per_s"]))


def spans(plan: Mapping[str, Any]) -> list[tuple[int, int]]:
    """First and last layer of each stage, from 0."""
    stages = (stage.split("-") for stage in plan["layers"].split(";"))
    return [(int(first), int(last)) for first, last in stages]


def pipeline(measurements: Measurements, row: Mapping[str, Any]) -> tuple[Problem, Plan]:
    """A measured plan as the workbench's: a node a replica, of `tp` GPUs.

    Activations are cut over the GPUs of a node. The all-reduce of a stage's gradients has the
    node's interface to itself, since it follows the last backward pass.
    """
    layers, degree, replicas = measurements.layers(row), row["tp"], row["dp"]
    stages, samples = spans(row), row["mbs"]
    output_bytes = float(FLOAT_BYTES * SEQUENCE * HIDDEN[row["model"]])
    param_bytes = FLOAT_BYTES * degree * layers.parameters
    links: dict[tuple[int, int], Link] = {}
    crossing = measurements.node_bytes_per_s(degree, samples * output_bytes / degree)
    for stage, (first, last) in enumerate(stages):
        own = range(stage * replicas, (stage + 1) * replicas)
        if stage + 1 < len(stages):
            for node in own:
                ends = node, node + replicas
                links[ends] = links[ends[::-1]] = Link(8 * crossing)
        if replicas > 1:
            message_bytes = param_bytes[first : last + 1].sum() / degree / replicas
            shared = measurements.node_bytes_per_s(degree, message_bytes) / (replicas - 1)
            links |= {(a, b): Link(8 * shared) for a in own for b in own if a != b}
    nodes = len(stages) * replicas
    problem = Problem(
        forward_s=np.tile(layers.forward_s / samples, (nodes, 1)),
        backward_s=np.tile(layers.backward_s / samples, (nodes, 1)),
        update_s=np.tile(layers.update_s, (nodes, 1)),
        param_bytes=param_bytes,
        output_bytes=np.full(len(param_bytes), output_bytes),
        links=links,
        batch=row["gbs"],
    )
    planned = Plan(
        stages=tuple(
            Stage(
                first + 1,
                last + 1,
                tuple((stage * replicas + replica, samples) for replica in range(replicas)),
            )
            for stage, (first, last) in enumerate(stages)
        ),
        microbatches=row["microbatches"],
        blocking=len(stages) > 1,  # DeepSpeed's TrainSchedule
    )
    return problem, planned


def prepare(table: pl.DataFrame, *tables: pl.DataFrame) -> pl.DataFrame:
    """Rows whose time is their own, with ``predicted_s`` and ``compute_s``.

    The latter are the seconds for which the slowest stage computes.
    """
    measurements, columns = Measurements(*tables), []
    for row in table.filter(use_step=1).iter_rows(named=True):
        layers = measurements.layers(row)
        both_s = row["microbatches"] * (layers.forward_s + layers.backward_s)
        compute_s = max(float(both_s[first : last + 1].sum()) for first, last in spans(row))
        predicted_s = iteration(*pipeline(measurements, row)).total_s
        columns.append(row | {"predicted_s": predicted_s, "compute_s": compute_s})
    return pl.DataFrame(columns, infer_schema_length=None)


CORPUS = Corpus(
    title="Pipelines of replicated stages on GH200s (Sailor)",
    source=(
        "The numbers stand in eth-easl/sailor, branch sosp25_ae, sailor/Planner/simulations and "
        "sailor/providers, MIT (docs/how-to/validate.md)"
    ),
    file="sailor_plans.csv",
    tables=("sailor_profiles.csv", "sailor_layers.csv", "sailor_links.csv"),
    columns={
        **dict.fromkeys(("plan", "model", "layers"), pl.String),
        **dict.fromkeys(
            ("stages", "dp", "tp", "mbs", "gbs", "microbatches", "use_step"),
            pl.Int64,
        ),
        "step_s": pl.Float64,
    },
    key=("plan",),
    measured="step_s",
    most_s=1000,
    groups="model",
    role=pl.lit("predict"),
    prepare=prepare,
    constants={},
    fit=lambda rows: {},
    predict=lambda rows, constants: rows["predicted_s"].to_numpy(),
    naive=lambda rows: rows["compute_s"].to_numpy(),
    alike=("model",),
    near=("stages", "dp", "mbs", "gbs"),
    goal=0.08,
    kind="pipelines",
)
