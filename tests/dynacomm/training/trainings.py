"""Small trainings of LeNet-5, and the fingerprint that every process must find the same."""

from __future__ import annotations

import hashlib

import torch

from workbench import datasets
from workbench.clusters import Link, Schedule
from workbench.dynacomm.training import Setup, Trained, train

DIGITS = datasets.load("digits").limit(train=96, test=32)
LENET = Setup(
    "lenet5", DIGITS.fitted((1, 28, 28)), Link(20e6, 0.02), batch_size=16, epochs=2, seed=3
)
FALLING = Schedule.sampled(  # in ten levels, twenty times a second
    lambda at_s: 200e6 + (1e6 - 200e6) * (int(at_s / 0.05 * 10 + 0.5) % 10 / 9),
    step_s=0.05 / 10,
    end_s=20,
)
LINKS = {
    "step": Link(Schedule.of([(0, 200e6), (0.05, 2e6)]), 0.001, tensor_s=1e-4),
    "sawtooth": Link(FALLING, 0.001, latency_s=0.002),
}


def fingerprint(trained: Trained[torch.Tensor]) -> str:
    """Hash of every bit of the weights, of the epochs and of how long it took."""
    digest = hashlib.sha256(trained.weights.numpy().tobytes())
    for row in trained.epochs.iter_rows():
        digest.update(repr(row).encode())
    digest.update(repr((trained.run.end_s, trained.run.events)).encode())
    return digest.hexdigest()


def everything() -> Trained[torch.Tensor]:
    """Unequal workers and two servers on a link that changes, planned anew each iteration."""
    setup = Setup(
        "lenet5",
        LENET.dataset,
        LINKS["sawtooth"],
        workers=3,
        servers=2,
        batch_size=8,
        seed=5,
        speeds=(1.0, 0.5, 0.25),
    )
    return train(setup, replan_every=1, planning_s=0.001)


if __name__ == "__main__":
    print(fingerprint(everything()))
