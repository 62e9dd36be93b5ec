"""A training as real processes learns the same weights, bit for bit, as the simulated one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from tests.dynacomm.training.trainings import LENET
from workbench.clusters import Link
from workbench.dynacomm.programs.learning import ServerStore
from workbench.runtime import Context, Program, simulate
from workbench.runtime.measured import measure
from workbench.runtime.measured.sessions import Session
from workbench.training.repeatable import fixed_threads


def keeping(program: Program, store: ServerStore) -> Program:
    """Return the server's parameters, too: a process keeps nothing but what it returns."""

    async def program_of_server(context: Context) -> Any:
        return await program(context), [store.vector[part].clone() for part in store.own]

    return program_of_server


def test_weights_are_those_of_the_simulation(ray_session: Session) -> None:
    setup = replace(LENET, link=Link(4e8, overhead_s=0.002), workers=2, servers=2, epochs=1)
    found = []
    with fixed_threads():
        for run in (simulate, measure):
            made = setup.programs("dynacomm")
            programs = made.programs[:2]
            programs += map(keeping, made.programs[2:], made.stores)
            found.append(run(made.cluster, programs, seed=setup.seed).results)
    simulated, measured = found
    for server in (2, 3):
        assert simulated[server][0] == measured[server][0]
        assert all(map(torch.equal, simulated[server][1], measured[server][1]))
    for worker in (0, 1):
        assert simulated[worker].plans[0] == measured[worker].plans[0]
        assert len(simulated[worker].observed) == len(measured[worker].observed)
