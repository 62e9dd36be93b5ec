"""What batch normalisation averages is exchanged and averaged as the parameters are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from tests.decentralised.exchanges import runs
from tests.decentralised.setups import epochwise, gosgd, learners
from workbench import decentralised, training
from workbench.decentralised import (
    AdPsgd,
    ChocoSgd,
    DiLoCo,
    GoSgd,
    GossipSetup,
    MoshpitSgd,
    NoLoCo,
)
from workbench.decentralised.exchanges.gosgd import WeightedModel
from workbench.decentralised.learner import Model
from workbench.runtime import Crash
from workbench.training.batches import Draw


def model() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(64, 10), torch.nn.BatchNorm1d(10)
    )


def trained(of: GossipSetup) -> list[Any]:
    """Learners behind an epoch."""
    with training.fixed_threads():
        built = replace(of, model=model, epochs=1).programs()
        training.run(built)
    return learners(built)


def test_an_exchange_of_all_with_all_takes_the_mean() -> None:
    alone = trained(gosgd(decentralised.complete(3), 0.0))
    mixed = trained(epochwise(decentralised.complete(3)))
    for kind in ("running_mean", "running_var"):
        own = torch.stack([getattr(one.flat.module[2], kind) for one in alone])
        assert not torch.allclose(own[0], own[1])
        for one in mixed:
            torch.testing.assert_close(getattr(one.flat.module[2], kind), own.mean(0))


def test_gosgd_merges_by_weights() -> None:
    learner = trained(gosgd(decentralised.complete(2), 0.0))[0]
    worker: Any = Mock(nodes=2, learner=learner)
    exchange, own = GoSgd(0.5)(worker), learner.buffers()
    exchange.alpha = 0.3
    other = {name: tensor + 1 for name, tensor in own.items()}
    parameters = learner.snapshot().parameters
    exchange.arrived.append(WeightedModel(0.1, 1, Model(parameters, other)))
    exchange.merge()
    found = learner.buffers()
    torch.testing.assert_close(found["2.running_mean"], own["2.running_mean"] + 0.25)
    assert found["2.num_batches_tracked"] == own["2.num_batches_tracked"]


def normalised() -> torch.nn.Module:
    """What is averaged depends on batches alone, not on what is learnt."""
    return torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 10)
    )


@pytest.mark.parametrize(
    ("exchange", "workers", "every", "iterations"),
    [
        (DiLoCo(2), 3, 2, 5),
        (DiLoCo(2), 1, 1, 3),
        (ChocoSgd(0.1), 3, 1, 4),
        (MoshpitSgd(2, dimensions=1), 3, 2, 5),
        (NoLoCo(2), 2, 2, 5),
        (AdPsgd(), 2, 1, 1),
    ],
    ids=str,
)
def test_exchanges_by_iterations_take_the_mean_of_all_that_exchange(
    exchange: Any, workers: int, every: int, iterations: int
) -> None:
    of = replace(
        runs.setup(workers, iterations=iterations, speeds=[1, 0.01, 0.5][:workers]),
        model=normalised,
    )
    built = of.programs(exchange)
    training.run(built)
    draws = [Draw(of.held[node], of.seed, node, 0) for node in range(workers)]
    means, variances = np.zeros((workers, 64)), np.ones((workers, 64))
    for iteration in range(1, iterations + 1):
        for node, draw in enumerate(draws):
            x = runs.DIGITS.x_train[draw.take(of.local_batch)].reshape(-1, 64)
            means[node] += 0.1 * (x.mean(0) - means[node])
            variances[node] += 0.1 * (x.var(0, ddof=1) - variances[node])
        if not iteration % every:
            means[:], variances[:] = means.mean(0), variances.mean(0)
    programs: list[Any] = built.programs
    for node, program in enumerate(programs):
        module: Any = program.state.value.flat.module
        norm = module[1]
        np.testing.assert_allclose(norm.running_mean, means[node], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(norm.running_var, variances[node], rtol=1e-5, atol=1e-6)
        assert norm.num_batches_tracked == iterations


def test_one_that_is_gone_is_left_out_of_the_mean() -> None:
    of = replace(runs.setup(4, iterations=12, patience_s=0.3), model=normalised)
    built = of.programs(DiLoCo(4))
    run = training.run(built, training.RunOptions(faults=[Crash(2, 0.5)])).run
    found = [run.learnt[node].model.buffers["1.running_mean"] for node in range(4)]
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[3])
    assert not torch.allclose(found[0], found[2])
