"""True learning on sharded models: the weights of an all-reduce, and of one machine."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.long import usually
from tests.oracles import sharding as oracle
from tests.pipelines.test_training import (
    Adapted,
    Shortcut,
    dropping,
    normalised,
    small_gpt,
    without_dropout,
)
from workbench import datasets, training
from workbench.clusters import Cluster, Link, Node, full_mesh
from workbench.runtime import Crash
from workbench.runtime.measured.sessions import Session
from workbench.sharding import PLANNERS, Plan, Setup, ends_s, train
from workbench.sharding.learning import Replica
from workbench.sharding.programs import Worker
from workbench.training import RunOptions, Sgd, TrainingError
from workbench.utils.checks import UserError

DIGITS = datasets.load("digits").limit(train=60, test=20).fitted((1, 8, 8))
TOKENS = datasets.load("markov").limit(train=24, test=4)


def mesh(nodes: int = 3, bps: float = 1e7) -> Cluster:
    return full_mesh([Node(f"n{at}", speed=1 - at / 5) for at in range(nodes)], Link(bps, 1e-4))


def setup_of(make: Callable[[], nn.Module], nodes: int = 3, **changes: Any) -> Setup:
    data = TOKENS if make is small_gpt else DIGITS
    options = {"epochs": 2, "batch_size": 8, "sgd": Sgd(0.05, momentum=0.9), "seed": 3}
    return Setup(make, data, **{"cluster": mesh(nodes), **options, **changes})


def cut(setup: Setup, stage: int, every: int = 1) -> Plan:
    """Buckets of this many layers."""
    return Plan(stage=stage, cuts=tuple(range(every, len(setup.profile), every)))


@pytest.mark.parametrize("layers", usually([2], [1, 2]))
@pytest.mark.parametrize("make", [Shortcut, normalised, dropping, Adapted, small_gpt])
def test_every_stage_has_the_bits_of_an_all_reduce(
    make: Callable[[], nn.Module], layers: int
) -> None:
    """With the last batches smaller, buckets of `layers`, and with what links bring first."""
    setup = setup_of(make)
    whole = train(setup, Plan(stage=0))
    assert whole.weights.isfinite().all()
    for stage in range(4):
        found = train(setup, cut(setup, stage, layers))
        assert torch.equal(found.weights, whole.weights), stage
        assert found.epochs.drop("at_s").equals(whole.epochs.drop("at_s"))


def test_an_epoch_of_one_step_is_evaluated_with_its_own_statistics() -> None:
    """The first node has passed the second step's batch while the other still updates."""
    nodes = [Node("fast"), Node("slow", speed=1e-3)]
    setup = setup_of(normalised, cluster=full_mesh(nodes, Link(1e12)), batch_size=30, epochs=3)
    alike = setup_of(normalised, 2, batch_size=30, epochs=3)
    found, expected = (train(each, Plan(stage=0)).epochs.drop("at_s") for each in (setup, alike))
    assert found.equals(expected)


@pytest.mark.parametrize("stage", [0, 2, 3])
@pytest.mark.parametrize("nodes", usually([1, 3], [1, 2, 3]))
@pytest.mark.parametrize("make", [Shortcut, normalised, Adapted])
def test_nodes_learn_what_one_machine_accumulates(
    make: Callable[[], nn.Module], nodes: int, stage: int
) -> None:
    """Batch normalisation rounds otherwise where layers are computed one by one."""
    setup = setup_of(make, nodes, epochs=1)
    data = setup.dataset
    with training.fixed_threads():
        indices = [
            training.batches(data, 8, 3, 0, worker=node, workers=nodes) for node in range(nodes)
        ]
        steps = [
            [
                (torch.from_numpy(data.x_train[own]), torch.from_numpy(data.y_train[own]))
                for own in parts
            ]
            for parts in zip(*indices, strict=True)
        ]
        module = setup.made()
        oracle.accumulated(
            module, steps, functional.cross_entropy, learning_rate=0.05, momentum=0.9
        )
        flat = training.flatten(module, setup.dataset.inputs)
    found = train(setup, cut(setup, stage))
    if make is not normalised:
        assert torch.equal(found.weights, flat.parameters)
    torch.testing.assert_close(found.weights, flat.parameters, rtol=1e-6, atol=1e-6)


def test_a_tied_model_learns_as_one_machine_does() -> None:
    setups = [
        Setup(without_dropout, TOKENS, mesh(nodes), batch_size=6 // nodes, sgd=Sgd(0.05), epochs=2)
        for nodes in (1, 2)
    ]
    alone, together = (train(setup, cut(setup, 3)) for setup in setups)
    torch.testing.assert_close(together.weights, alone.weights, rtol=1e-6, atol=1e-6)
    assert setups[0].problem.tied


def test_node_of_stage_3_forgets_the_shares_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most two buckets of parameters are whole at a time, as memory is counted."""
    setup = setup_of(Shortcut, epochs=1)
    plan = cut(setup, 3)
    most = dict[str, int]()
    compute = Replica.compute

    def counted(self: Replica, iteration: int, work: Any) -> Any:
        finite = int(self.worker.flat.parameters.isfinite().sum())
        most[self.worker.name] = max(most.get(self.worker.name, 0), finite)
        return compute(self, iteration, work)

    monkeypatch.setattr(Replica, "compute", counted)
    train(setup, plan)
    starts = setup.flat().layout.starts
    sizes = [high - low for low, high in pairwise(starts)]
    pair = max(map(sum, pairwise(sizes)))
    assert max(most.values()) <= pair + (starts[-1] - pair) / 3 + len(sizes)
    built = setup.programs(plan)
    workers = [program for program in built.programs if isinstance(program, Worker)]
    held = [w.replica.value.worker.flat.parameters for w in workers if w.replica is not None]
    assert torch.stack([part.isfinite() for part in held]).sum(0).eq(1).all()


@pytest.mark.parametrize("name", PLANNERS)
def test_training_takes_the_predicted_time(name: str) -> None:
    setup = setup_of(Shortcut, cluster=full_mesh(3, Link(1e7, 1e-4)))
    plan = PLANNERS[name](setup.problem)
    found = train(setup, plan)
    assert found.run.end_s == pytest.approx(ends_s(setup.problem, plan, 6)[-1])


def test_a_loss_that_diverges_ends_with_the_finished_epochs() -> None:
    setup = setup_of(Shortcut, sgd=Sgd(1e38))
    with pytest.raises(TrainingError, match="diverged"):
        train(setup, cut(setup, 3))


def test_what_cannot_be_trained_is_refused() -> None:
    setup = setup_of(Shortcut)
    with pytest.raises(UserError, match="loses messages"):
        train(setup, Plan(stage=1), faults=[Crash("n0", 0.1)])
    with pytest.raises(UserError, match="is cut behind"):
        train(setup, Plan(stage=1, cuts=(99,)))
    links: Any = {(0, 1): Link(1e6)}
    with pytest.raises(UserError, match="no link leads from b to a"):
        setup_of(Shortcut, cluster=Cluster([Node("a"), Node("b")], links))


def test_measured_as_simulated(ray_session: Session) -> None:
    setup = setup_of(normalised, 2, epochs=1)
    plan = cut(setup, 3, 2)
    measured: Any = training.train(setup, plan, RunOptions(measured=True))
    simulated = train(setup, plan)
    assert torch.equal(measured.weights, simulated.weights)
