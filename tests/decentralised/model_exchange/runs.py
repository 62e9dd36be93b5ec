"""Small runs of exchanges by iterations: softmax regression on some digits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from tests.oracles import model_exchange as oracle
from workbench import datasets, dlion
from workbench.clusters import Link, Node, full_mesh
from workbench.dlion import Setup, System
from workbench.dlion.algorithms.synchronisation import asynchronous
from workbench.training import Sgd
from workbench.training.batches import Draw

DIGITS = datasets.load("digits").limit(train=240, test=32)
VALUES = 650
MODEL_BYTES = 4 * VALUES
LINK = Link(8 * MODEL_BYTES / 0.02)  # a model takes a fiftieth of a second
SAMPLE_S = 0.01
RATE = 0.1


def regression() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))


def setup(workers: int, *, speeds: Sequence[float] | None = None, **changes: Any) -> Setup:
    of = [1.0] * workers if speeds is None else speeds
    nodes = [Node(f"node{index}", speed=speed) for index, speed in enumerate(of)]
    given: dict[str, Any] = {
        "cluster": full_mesh(nodes, LINK),
        "local_batch": 8,
        "sample_s": SAMPLE_S,
        "sgd": Sgd(RATE),
        "seed": 3,
    }
    return Setup(regression, DIGITS, **{**given, **changes})


def system(exchange: Any) -> System:
    return System("Exchange", exchange_models=exchange, synch_training=asynchronous)


def train(of: Setup, exchange: Any, **options: Any) -> dlion.Trained:
    return dlion.train(of, system(exchange), **options)


def first(of: Setup) -> list[list[float]]:
    """Everyone's first weights; exchanges do not matter for them."""
    programs: list[Any] = of.programs("local_sgd").programs
    return [program.state.value.flat.parameters.tolist() for program in programs]


def batches(of: Setup, iterations: int) -> Sequence[Sequence[oracle.Batch]]:
    """Everyone's batches, as plain lists."""
    x, y = DIGITS.x_train, DIGITS.y_train
    taken = []
    for node in range(of.nodes):
        draw = Draw(of.held[node], of.seed, node, 0)
        taken.append(
            [
                [(np.ravel(x[one]).tolist(), int(y[one])) for one in draw.take(of.local_batch)]
                for _ in range(iterations)
            ]
        )
    return taken
