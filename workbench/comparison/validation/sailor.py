"""Pipelines of replicated stages on GH200s, as the authors of Sailor measured them.

The seconds of a layer and the bandwidth of a link are measured apart and taken as they are, so no
constant is fitted for the seconds of a step: `workbench.pipelines.costs` combines them. Two
constants of memory are fitted on a fifth of the plans.

Source: Strati et al. 2025, Sailor (SOSP), its public repository; plans of the cluster `clariden`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from workbench.clusters import Link
from workbench.pipelines.costs import Problem, iteration
from workbench.pipelines.schedules import Plan, Stage

TABLES = ("sailor_plans", "sailor_profiles", "sailor_layers", "sailor_links")
GPU, ZONE = "GH-96", "us-central1-a"
SEQUENCE, VOCABULARY = 2048, 50_304
HIDDEN = {"OPT-350": 1024, "GPT-Neo-2.7": 2560}
HEAD_IS_LEFT_OUT = "GPT-Neo"
"""Models whose profile lacks the matrix product of the head; its FLOPs say what it takes."""

FLOAT_BYTES = 4
STATE_BYTES = 16
"""Bytes a parameter: weight, gradient and Adam's two moments, 32 bits each."""


class Layers(NamedTuple):
    """Layers of a model on the tensor-parallel GPUs of a node, for a micro-batch; L = layer.

    Attributes
    ----------
    forward_s, backward_s, update_s
        Seconds. Shape (L,).
    parameters, kept_floats
        Of one GPU; floats are those of a sample that the backward pass needs. Shape (L,).
    """

    forward_s: NDArray[np.float64]
    backward_s: NDArray[np.float64]
    update_s: NDArray[np.float64]
    parameters: NDArray[np.float64]
    kept_floats: NDArray[np.float64]


@dataclass(frozen=True)
class Sailor:
    """The four tables, by name in `TABLES`."""

    tables: Mapping[str, pl.DataFrame]

    @classmethod
    def read(cls, folder: Path | str) -> Sailor:
        """Read the tables from CSV files in a folder."""
        return cls({name: pl.read_csv(Path(folder) / f"{name}.csv") for name in TABLES})

    def plans(self, usable: str) -> Iterator[dict[str, Any]]:
        """Rows of plans whose number is their own: `usable` is ``use_step`` or ``use_memory``."""
        return self.tables["sailor_plans"].filter(pl.col(usable) == 1).iter_rows(named=True)

    def layers(self, plan: Mapping[str, Any]) -> Layers:
        """Layers of the plan's model, tensor-parallel degree and micro-batch."""
        model, degree = plan["model"], plan["tp"]
        seconds = self.tables["sailor_profiles"].filter(
            model=model, gpu=GPU, mbs=plan["mbs"], tp=degree
        )
        sizes = self.tables["sailor_layers"].filter(model=model, tp=degree).sort("layer")
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
            sizes["kept_floats"].to_numpy().astype(float),
        )

    def node_bytes_per_s(self, pairs: int, message_bytes: float) -> float:
        """Bandwidth between two nodes if `pairs` of their GPUs send messages of this size."""
        row = (
            self.tables["sailor_links"]
            .filter(scope="inter_node", zone_a=ZONE, zone_b=ZONE, gpu_a=GPU, gpu_b=GPU)
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


def pipeline(corpus: Sailor, row: Mapping[str, Any]) -> tuple[Problem, Plan]:
    """A measured plan as the workbench's: a node a replica, of `tp` GPUs.

    Activations are cut over the GPUs of a node. The all-reduce of a stage's gradients has the
    node's interface to itself, since it follows the last backward pass.
    """
    layers, degree, replicas = corpus.layers(row), row["tp"], row["dp"]
    stages, samples = spans(row), row["mbs"]
    output_bytes = float(FLOAT_BYTES * SEQUENCE * HIDDEN[row["model"]])
    param_bytes = FLOAT_BYTES * degree * layers.parameters
    links: dict[tuple[int, int], Link] = {}
    crossing = corpus.node_bytes_per_s(degree, samples * output_bytes / degree)
    for stage, (first, last) in enumerate(stages):
        own = range(stage * replicas, (stage + 1) * replicas)
        if stage + 1 < len(stages):
            for node in own:
                ends = node, node + replicas
                links[ends] = links[ends[::-1]] = Link(8 * crossing)
        if replicas > 1:
            message_bytes = param_bytes[first : last + 1].sum() / degree / replicas
            shared = corpus.node_bytes_per_s(degree, message_bytes) / (replicas - 1)
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


def steps(corpus: Sailor) -> pl.DataFrame:
    """Seconds of a step: ``plan, measured_s, predicted_s``, and two naive predictions.

    ``compute_s`` are those of the slowest stage computing; ``ideal_s`` those of all layers, divided
    by the stages.
    """
    rows = []
    for row in corpus.plans("use_step"):
        layers = corpus.layers(row)
        both_s = row["microbatches"] * (layers.forward_s + layers.backward_s)
        stages = spans(row)
        rows.append(
            {
                "plan": row["plan"],
                "measured_s": row["step_s"],
                "predicted_s": iteration(*pipeline(corpus, row)).total_s,
                "compute_s": max(both_s[first : last + 1].sum() for first, last in stages),
                "ideal_s": both_s.sum() / len(stages),
            }
        )
    return pl.DataFrame(rows)


class Memory(NamedTuple):
    """Constants of memory, the same for all plans.

    Attributes
    ----------
    context_bytes
        Bytes of CUDA's and NCCL's contexts.
    cached
        Bytes that PyTorch's allocator holds for each byte of activations.
    """

    context_bytes: float
    cached: float


def stage_bytes(corpus: Sailor, row: Mapping[str, Any]) -> tuple[float, float]:
    """Bytes of states and of activations on a GPU of the stage that needs most of both."""
    layers, stages = corpus.layers(row), spans(row)
    sizes = []
    for stage, (first, last) in enumerate(stages):
        in_flight = min(len(stages) - stage, row["microbatches"])
        kept = layers.kept_floats[first : last + 1].sum()
        sizes.append(
            (
                float(STATE_BYTES * layers.parameters[first : last + 1].sum()),
                float(FLOAT_BYTES * row["mbs"] * in_flight * kept),
            )
        )
    return max(sizes, key=sum)


def memory(corpus: Sailor, constants: Memory) -> pl.DataFrame:
    """Bytes on the fullest GPU: ``plan, measured_bytes, predicted_bytes``."""
    rows = []
    for row in corpus.plans("use_memory"):
        states, activations = stage_bytes(corpus, row)
        predicted = constants.context_bytes + states + constants.cached * activations
        rows.append((row["plan"], row["memory_bytes"], predicted))
    columns = ["plan", "measured_bytes", "predicted_bytes"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def fit_memory(corpus: Sailor, plans: list[str]) -> Memory:
    """Fit both constants on some plans, by least squares of relative errors."""
    columns, targets = [], []
    for row in corpus.plans("use_memory"):
        if row["plan"] in plans:
            states, activations = stage_bytes(corpus, row)
            measured = row["memory_bytes"]
            columns.append((1 / measured, activations / measured))
            targets.append(1 - states / measured)
    context_bytes, cached = np.linalg.lstsq(np.array(columns), np.array(targets))[0]
    return Memory(float(context_bytes), float(cached))
