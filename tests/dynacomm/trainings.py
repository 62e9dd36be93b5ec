"""Small trainings of LeNet-5, on links that change."""

from __future__ import annotations

from workbench import datasets
from workbench.clusters import Link, Schedule
from workbench.dynacomm.learning import ServerStore
from workbench.dynacomm.programs import Server, Worker
from workbench.dynacomm.training import Setup
from workbench.training.data_parallel import DataParallelPrograms, WorkerReplica

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


def replicas(built: DataParallelPrograms) -> list[WorkerReplica]:
    """What workers learn with."""
    workers = [program for program in built.programs if isinstance(program, Worker)]
    return [worker.replica.value for worker in workers if worker.replica is not None]


def stores(built: DataParallelPrograms) -> list[ServerStore]:
    """What servers hold."""
    servers = [program for program in built.programs if isinstance(program, Server)]
    return [server.store for server in servers if server.store is not None]
