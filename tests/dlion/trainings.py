"""Small trainings: a linear classifier of digits, workers of any speed, links of any bandwidth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from workbench import datasets
from workbench.clusters import Cluster, Link, Node, full_mesh
from workbench.dlion import Batching, Growth, Setup, System, Trained
from workbench.dlion.algorithms import SYSTEMS
from workbench.training import Sgd
from workbench.training.batches import Draw

DIGITS = datasets.load("digits").limit(train=96, test=16)
SAMPLE_S = 0.001
RATE = 0.1
CONSTANT = Growth(warm_up_add=0, speed_up_factor=1.0)


def linear() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))


def mesh(*speeds: float, mbps: float = 10.0) -> Cluster:
    """Workers of these speeds, each linked with all others."""
    nodes = [Node(f"worker{at}", speed=speed) for at, speed in enumerate(speeds)]
    return full_mesh(nodes, Link(mbps * 1e6))


def setup(*speeds: float, mbps: float = 10.0, **changes: Any) -> Setup:
    """Ten iterations of workers of these speeds."""
    given: dict[str, Any] = {
        "cluster": mesh(*(speeds or (1.0, 1.0, 0.5)), mbps=mbps),
        "local_batch": 8,
        "sample_s": SAMPLE_S,
        "sgd": Sgd(RATE),
        "evaluate_every": 100,
        **changes,
    }
    if not given.keys() & {"iterations", "seconds", "epochs"}:
        given["iterations"] = 10
    return Setup(linear, DIGITS, **given)


def often(system: System | str) -> System:
    """The same system, with what it does now and then every few iterations."""
    of = SYSTEMS[system] if isinstance(system, str) else system
    return replace(
        of,
        batching=of.batching and replace(of.batching, period=4),
        transfer=of.transfer and replace(of.transfer, period=4),
    )


def batching(weighting: str = "dynamic", **changes: Any) -> Batching:
    """Dynamic batching with a constant global batch."""
    return Batching(**{"growth": CONSTANT, "weighting": weighting, **changes})


def first_weights(of: Setup) -> list[NDArray[np.float32]]:
    """Each worker's weights before the training."""
    programs: list[Any] = of.programs("baseline").programs
    return [program.state.value.flat.parameters.numpy().copy() for program in programs]


def batches(of: Setup, sizes: Sequence[Sequence[int]]) -> list[list[NDArray[np.int64]]]:
    """Batches that the workers draw, of these sizes by iteration and worker."""
    draws = [Draw(held, of.seed, node) for node, held in enumerate(of.held)]
    return [[draws[k].take(size) for k, size in enumerate(row)] for row in sizes]


def starts(found: Trained, speeds: Sequence[float]) -> Iterator[Mapping[str, Any]]:
    """Every iteration of every worker, with the second in which it began."""
    for row in found.iterations.iter_rows(named=True):
        seconds = row["samples"] * SAMPLE_S / speeds[row["node"]]
        yield {**row, "from_s": row["at_s"] - seconds}
