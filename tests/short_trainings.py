"""A short training of each system, and the hash of its weights."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from tests.edgegossip.strategies import platforms
from tests.hiertrain.strategies import any_problem
from workbench import datasets, decentralised, dlion, dynacomm, edgegossip, hiertrain, olpb
from workbench.clusters import Link, Node, full_mesh
from workbench.datasets import partition
from workbench.hiertrain import Hybrid
from workbench.training import Sgd

DIGITS = datasets.load("digits").limit(train=96, test=16)
SGD = Sgd(0.03, momentum=0.9, weight_decay=1e-3)


def train_dynacomm() -> list[np.ndarray]:
    """LeNet-5 on two workers."""
    setup = dynacomm.Setup(
        "lenet5", DIGITS.fitted((1, 28, 28)), Link(20e6, 0.02), workers=2, epochs=2, sgd=SGD
    )
    return [dynacomm.train(setup).weights.numpy()]


def train_hiertrain() -> list[np.ndarray]:
    """LeNet-5 on three tiers; weights do not depend on the times."""
    problem = any_problem(5, 32)
    setup = hiertrain.Setup("lenet5", DIGITS.fitted((1, 28, 28)), problem, epochs=2, sgd=SGD)
    policy = Hybrid(("edge", "device", "cloud"), 1, 3, 10, 8, 14)
    return [hiertrain.train(setup, policy).weights.numpy()]


def train_decentralised() -> list[np.ndarray]:
    """A residual network, with batch normalisation, on two nodes."""
    data = DIGITS.limit(train=24, test=8).fitted((3, 32, 32))
    setup = decentralised.GossipSetup(
        "resnet20_cifar",
        data,
        shards=partition.by_size(data.y_train, [1, 1], seed=0),
        cluster=full_mesh(2, Link(20e6)),
        exchange=decentralised.Gossip(decentralised.ring(2)),
        batch_size=8,
        epochs=1,
        sgd=SGD,
    )
    return [weights.numpy() for weights in decentralised.train(setup).weights]


def train_edgegossip() -> list[np.ndarray]:
    """LeNet-5 on three platforms that learn from what matters most."""
    data, unequal = DIGITS.fitted((1, 28, 28)), platforms(0.01, 0.02, 0.04)
    setup = edgegossip.Setup("lenet5", data, unequal, epochs=3, batch_size=8, sgd=SGD)
    found = edgegossip.train(setup, edgegossip.EdgeGossip(ratio=5))
    return [weights.numpy() for weights in found.weights]


def train_dlion() -> list[np.ndarray]:
    """LeNet-5 on three workers: gradients whole, and by all of DLion's techniques."""
    workers = [Node(f"w{speed}", speed) for speed in (4, 2, 1)]
    setup = dlion.Setup(
        "lenet5",
        DIGITS.fitted((1, 28, 28)),
        cluster=full_mesh(workers, Link(20e6)),
        iterations=12,
        local_batch=8,
        sample_s=0.02,
        sgd=Sgd(0.03),
    )
    ours = replace(
        dlion.SYSTEMS["dlion"], batching=dlion.Batching(period=5), transfer=dlion.Transfer(period=4)
    )
    return [dlion.train(setup, system).weights for system in ("baseline", ours)]


def train_olpb() -> list[np.ndarray]:
    """LeNet-5 by a scan, and in modules with late gradients."""
    pool = olpb.Pool((olpb.Node(1e9),) * 4, delay_s=0.01)
    setup = olpb.Setup("lenet5", DIGITS.fitted((1, 28, 28)), pool, batch_size=16, epochs=2, sgd=SGD)
    return [olpb.train(setup, method).weights.numpy() for method in ("olpb", "dpb")]


TRAININGS = {
    "dynacomm": train_dynacomm,
    "hiertrain": train_hiertrain,
    "decentralised": train_decentralised,
    "edgegossip": train_edgegossip,
    "dlion": train_dlion,
    "olpb": train_olpb,
}


def digest(system: str) -> str:
    """Return the SHA-256 of all weights that a system's training ends with."""
    found = hashlib.sha256()
    for weights in TRAININGS[system]():
        found.update(weights.tobytes())
    return found.hexdigest()
