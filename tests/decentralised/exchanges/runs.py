"""Small runs of exchanges by iterations: softmax regression on some digits, in double precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from tests.oracles import model_exchange as oracle
from workbench import datasets, dlion
from workbench.clusters import Link, Node, full_mesh
from workbench.decentralised import MakeExchange
from workbench.dlion import Setup
from workbench.training import Sgd
from workbench.training.batches import Draw

DIGITS = datasets.load("digits").limit(train=240, test=32)
VALUES = 650
VALUE_BYTES = 8
MODEL_BYTES = VALUE_BYTES * VALUES
LINK = Link(8 * MODEL_BYTES / 0.02)  # a model takes a fiftieth of a second
SAMPLE_S = 0.01
RATE = 0.1


class Regression(torch.nn.Module):
    """In double precision, so that loops in plain Python come to the same."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(64, 10, dtype=torch.float64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.linear(x.double().flatten(1))
        return scores


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
    return Setup(Regression, DIGITS, **{**given, **changes})


def train(of: Setup, exchange: MakeExchange, **options: Any) -> dlion.Trained:
    return dlion.train(of, exchange, **options)


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
