"""What batch normalisation averages is exchanged and averaged as the parameters are."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch

from tests.decentralised.setups import epochwise, gosgd
from workbench import decentralised, training
from workbench.decentralised import GossipSetup
from workbench.decentralised.model_exchange.gosgd import GoSgd, Share, WeightedModel


def model() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(784, 10), torch.nn.BatchNorm1d(10)
    )


def learners(of: GossipSetup) -> list[Any]:
    with training.fixed_threads():
        built = replace(of, model=model, epochs=1).programs()
        training.run(built)
    return built.learners


def test_an_exchange_of_all_with_all_takes_the_mean() -> None:
    alone = learners(gosgd(decentralised.complete(3), 0.0))
    mixed = learners(epochwise(decentralised.complete(3)))
    for kind in ("running_mean", "running_var"):
        own = torch.stack([getattr(one.flat.module[2], kind) for one in alone])
        assert not torch.allclose(own[0], own[1])
        for one in mixed:
            torch.testing.assert_close(getattr(one.flat.module[2], kind), own.mean(0))


def test_gosgd_merges_by_weights() -> None:
    learner = learners(gosgd(decentralised.complete(2), 0.0))[0]
    node: Any = SimpleNamespace(learner=learner, context=None, heartbeat=None)
    source: Any = SimpleNamespace(hear=lambda reports: None)
    peers, own = GoSgd(node, source, 0.5, Share(0.3)), learner.buffers()
    other = {name: tensor + 1 for name, tensor in own.items()}
    peers.share.inbox.append(WeightedModel(0.1, learner.snapshot(), {}, other))
    peers.merge()
    found = learner.buffers()
    torch.testing.assert_close(found["2.running_mean"], own["2.running_mean"] + 0.25)
    assert found["2.num_batches_tracked"] == own["2.num_batches_tracked"]
