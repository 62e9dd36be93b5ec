"""Samples a second beside Flower's simulation: federated averaging of LeNet-5 by four clients.

``python benchmarks/flower.py ENVIRONMENT`` does the same work in Flower's simulation engine, in our
simulation and by our real processes: digits, four clients with equal shares, in each round a pass
by SGD over them from the same first weights, in the same batches, and an evaluation of the mean by
the server. PyTorch has one thread in each process. They take turns; what is printed is the median
of rounds, and what comes beside them: imports, Ray, processes. Losses of the first rounds show that
it is the same work (status 1 if they differ); later ones do not agree in their digits, since what
rounding leaves grows by a factor in each round, in Flower from run to run, as replies arrive.

Flower's simulation has no links: it neither limits nor times what is sent, and tells no time but
the clock's. Ours simulates links of 1 Gbit/s, and our processes keep to them; computing takes what
it takes.

ENVIRONMENT is a Python environment of Flower's own, since it wants another Ray than ours::

    python -m venv ENVIRONMENT
    ENVIRONMENT/bin/pip install 'flwr[simulation]==1.42.0' torch==2.13.0
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import polars as pl

CLIENTS, ROUNDS, BATCH, RATE, SEED = 4, 10, 16, 0.1, 0
REPEATS = 3
SAME_ROUNDS, APART = 3, 1e-4
"""Up to here losses differ by what rounding leaves alone, and by how much they may."""


class Result(NamedTuple):
    """What one of them did."""

    rounds_s: list[float]
    whole_s: float
    losses: list[float]
    top1: float

    def line(self, name: str, samples: int) -> str:
        """In a row of the table."""
        round_s = float(np.median(self.rounds_s))
        return (
            f"{name:20} {samples / round_s:6,.0f} samples/s, {1e3 * round_s:5.0f} ms a round, "
            f"{self.whole_s - sum(self.rounds_s):4.1f} s beside; loss {self.losses[-1]:.3f}, "
            f"accuracy {self.top1:.1%}"
        )


def by_flower(folder: Path) -> None:
    """Run in Flower's environment, on what the other process has written."""
    import torch
    from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    torch.set_num_threads(1)
    ends_s, losses, top1 = list[float](), list[float](), 0.0
    client, server = ClientApp(), ServerApp()

    def given() -> tuple[Any, dict[str, torch.Tensor]]:
        with np.load(folder / "data.npz") as arrays:
            tensors = {name: torch.from_numpy(arrays[name]) for name in arrays}
        return torch.load(folder / "model.pt", weights_only=False), tensors

    def train(message: Message, context: Context) -> Message:
        torch.set_num_threads(1)
        model, data = given()
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        number = int(message.content["config"]["server-round"])
        order = data[f"order {context.node_config['partition-id']} {number}"]
        step = torch.optim.SGD(model.parameters(), lr=RATE)
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            step.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(data["x"][batch]), data["y"][batch])
            torch.autograd.backward(loss)
            step.step()
        content = {
            "arrays": ArrayRecord(model.state_dict()),
            "metrics": MetricRecord({"num-examples": len(data["x"]) // CLIENTS}),
        }
        return Message(content=RecordDict(content), reply_to=message)

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
        nonlocal top1
        model, data = given()
        model.load_state_dict(arrays.to_torch_state_dict())
        with torch.no_grad():
            scores = model(data["x_test"])
            loss = torch.nn.functional.cross_entropy(scores, data["y_test"]).item()
            top1 = (scores.argmax(1) == data["y_test"]).float().mean().item()
        ends_s.append(time.monotonic())
        losses.append(loss)
        return MetricRecord({"loss": loss})

    def serve(grid: Grid, context: Context) -> None:
        strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=CLIENTS)
        strategy.start(grid, ArrayRecord(given()[0].state_dict()), ROUNDS, evaluate_fn=evaluate)

    client.train()(train)
    server.main()(serve)
    cores = os.cpu_count() or 1
    backend = {
        "init_args": {"num_cpus": max(cores, CLIENTS), "address": "local"},
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
    }
    run_simulation(server, client, CLIENTS, backend_config=backend)
    np.savez(
        folder / "result.npz",
        rounds_s=np.diff(ends_s)[1:],  # the first starts the clients' processes
        losses=losses[1:],
        top1=top1,
    )


def in_environment(python: Path, setup: Any, folder: Path) -> Result:
    """Write what Flower's process needs, run it and read what it found."""
    import torch

    from workbench.training.repeatable import SHUFFLE

    data = setup.dataset
    arrays: dict[str, Any] = {
        "x": data.x_train,
        "y": data.y_train,
        "x_test": data.x_test,
        "y_test": data.y_test,
    }
    for node, shard in enumerate(setup.shards):
        for number in range(1, ROUNDS + 1):
            stream = np.random.SeedSequence(SEED, spawn_key=(SHUFFLE, number, node))
            order = np.random.default_rng(stream).permutation(shard)
            arrays[f"order {node} {number}"] = order
    np.savez(folder / "data.npz", **arrays)
    torch.save(setup.made(), folder / "model.pt")
    settings = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": ""}
    began_s = time.monotonic()
    ran = subprocess.run(
        [python, __file__, "--inside", folder],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    whole_s = time.monotonic() - began_s
    if ran.returncode:
        sys.exit(ran.stderr)
    with np.load(folder / "result.npz") as result:
        rounds_s, losses = result["rounds_s"].tolist(), result["losses"].tolist()
        return Result(rounds_s, whole_s, losses, float(result["top1"]))


def ours(setup: Any, measured: Any) -> Result:
    """Train, simulated or by real processes."""
    from workbench import training
    from workbench.training import RunOptions

    def train(setup: Any) -> tuple[float, pl.DataFrame]:
        began_s = time.monotonic()
        trained = training.train(setup, None, RunOptions(measured=measured))
        return time.monotonic() - began_s, trained.epochs

    if measured:
        whole_s, epochs = train(setup)
        rounds_s = np.diff(epochs["at_s"]).tolist()
    else:  # whose times are virtual
        train(replace(setup, epochs=1))
        first_s, _ = train(replace(setup, epochs=1))
        whole_s, epochs = train(setup)
        rounds_s = [(whole_s - first_s) / (ROUNDS - 1)] * (ROUNDS - 1)
    return Result(rounds_s, whole_s, epochs["test_loss"].to_list(), epochs["top1"][-1])


def main(environment: str) -> int:
    """Run all by turns; 1 if their losses differ."""
    from workbench import datasets
    from workbench.clusters import Link, Node, star
    from workbench.comparison.methods import fedavg
    from workbench.training import Sgd

    data = datasets.load("digits").fitted((1, 28, 28)).limit(train=1440)
    setup = fedavg.Setup(
        "lenet5",
        data,
        epochs=ROUNDS,
        sgd=Sgd(RATE),
        seed=SEED,
        shards=np.split(np.arange(len(data.y_train)), CLIENTS),
        cluster=star([Node(f"client{at}") for at in range(CLIENTS)], [Node("server")], Link(1e9)),
        server=CLIENTS,
        round_s=[1.0] * CLIENTS,
        batch_size=BATCH,
    )
    python, same = Path(environment) / "bin" / "python", True
    os.environ["OMP_NUM_THREADS"] = "1"
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory() as folder:
            found = {
                "Flower's simulation": in_environment(python, setup, Path(folder)),
                "ours, simulated": ours(setup, measured=False),
                "ours, real processes": ours(setup, measured="unpadded"),
            }
        for name, result in found.items():
            print(result.line(name, len(data.y_train)), flush=True)
        for losses in zip(*(result.losses[:SAME_ROUNDS] for result in found.values()), strict=True):
            same &= max(losses) - min(losses) <= APART * max(losses)
    print(f"losses of the first {SAME_ROUNDS} rounds " + ("are the same" if same else "DIFFER"))
    return int(not same)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        by_flower(Path(sys.argv[2]))
    elif len(sys.argv) == 2:
        sys.exit(main(sys.argv[1]))
    else:
        sys.exit("give the folder of Flower's environment, as `python benchmarks/flower.py FOLDER`")
