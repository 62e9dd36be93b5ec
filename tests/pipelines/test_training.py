"""True learning in pipelines: the weights of one machine that accumulates gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.long import usually
from tests.oracles.pipelines_training import accumulated, plain, stashed
from tests.pipelines.problems import uniform
from workbench import datasets, training
from workbench.clusters import Link
from workbench.pipelines import Plan, Problem, Stage, Tied
from workbench.pipelines.schedules import SCHEDULES
from workbench.pipelines.training import Setup, Trained, train
from workbench.runtime.measured.sessions import Session
from workbench.training import RunOptions
from workbench.training.evaluation import tensors_of
from workbench.training.repeatable import STEP, seeded
from workbench.utils.checks import UserError
from workbench.zoo.gpt import GPT

DIGITS = datasets.load("digits").fitted((1, 8, 8))
TOKENS = datasets.load("markov").limit(train=32, test=4)
SGD = training.Sgd(0.05, momentum=0.9, weight_decay=1e-3)
STEPS, BATCH = 3, 8
FAST = Link(4e8, overhead_s=0.001)


class Shortcut(nn.Module):
    """Five layers; a shortcut passes two of them, so that two tensors cross these cuts."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 12), nn.Linear(12, 12)
        self.third, self.fourth, self.head = nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(12, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x.flatten(1)))
        y = x + self.third(torch.tanh(self.second(x)))
        out: Tensor = self.head(torch.tanh(self.fourth(y)))
        return out


def normalised() -> nn.Module:
    def block(into: int, out: int) -> list[nn.Module]:
        return [nn.Conv2d(into, out, 3, 2, 1), nn.BatchNorm2d(out), nn.ReLU()]

    last = [nn.Flatten(), nn.Linear(24, 10)]
    return nn.Sequential(*block(1, 4), *block(4, 6), *block(6, 6), nn.Conv2d(6, 24, 1), *last)


def dropping() -> nn.Module:
    def block(into: int) -> list[nn.Module]:
        return [nn.Linear(into, 12), nn.ReLU(), nn.Dropout(0.5)]

    return nn.Sequential(nn.Flatten(), *block(64), *block(12), *block(12), nn.Linear(12, 10))


def small_gpt() -> nn.Module:
    return GPT(16, 32, width=8, depth=2, heads=2, dropout=0.2)


class Adapted(nn.Module):
    """Frozen layers with a trained adapter from the second one on."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 12), nn.Linear(12, 12)
        self.down, self.up = nn.Linear(12, 3), nn.Linear(3, 12)
        self.third, self.head = nn.Linear(12, 12), nn.Linear(12, 10)
        for part in (self.first, self.second, self.third):
            part.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.second(torch.relu(self.first(x.flatten(1)))))
        x = x + self.up(torch.relu(self.down(x)))
        out: Tensor = self.head(torch.tanh(self.third(x)))
        return out


def setup_of(make: Callable[[], nn.Module], nodes: int = 4, **changes: Any) -> Setup:
    """A training of three steps; links take a while."""
    data = (
        TOKENS
        if make in (small_gpt, without_dropout)
        else DIGITS.limit(train=STEPS * BATCH, test=8)
    )
    with training.seeded(0):
        module = make()
    profile = training.Setup(module, data).profile
    trained = next(n for n, size in enumerate(profile.table["param_bytes"], start=1) if size)
    layers = len(profile)
    seconds = np.linspace(1, 2, nodes)[:, None] * np.ones(layers)
    problem = replace(
        uniform(nodes, BATCH),
        forward_s=seconds,
        backward_s=2 * seconds,
        update_s=0.1 * seconds,
        param_bytes=profile.table["param_bytes"].to_numpy(),
        output_bytes=profile.table["output_bytes"].to_numpy(),
        tied=profile.tied,
        first_trained=trained,
    )
    return Setup(make, data, problem, iterations=STEPS, sgd=SGD, seed=2, **changes)


def plan_of(problem: Problem, *groups: Sequence[tuple[int, int]], **changes: Any) -> Plan:
    """Stages of about equally many layers with these replicas, in micro-batches of their sum."""
    lasts = np.linspace(0, problem.layers, len(groups) + 1).round().astype(int).tolist()
    stages = tuple(
        Stage(before + 1, last, tuple(group))
        for before, last, group in zip(lasts[:-1], lasts[1:], groups, strict=True)
    )
    size = sum(count for _, count in groups[0])
    return Plan(stages=stages, microbatches=problem.batch // size, **changes)


ONE_EACH = [[(0, 2)], [(1, 2)], [(2, 2)]]
REPLICAS = [[(0, 3), (1, 1)], [(2, 4)], [(3, 2), (1, 2)]]


def microbatches(setup: Setup, plan: Plan) -> list[list[tuple[list[Tensor], Tensor]]]:
    data = setup.dataset
    return [
        [
            (
                tensors_of(data.x_train[rows], torch.device("cpu")),
                torch.from_numpy(data.y_train[rows]),
            )
            for rows in np.split(batch, plan.microbatches)
        ]
        for batch in setup.batches
    ]


def loss_of(outputs: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(outputs.flatten(0, -2), labels.flatten())


def alone(setup: Setup, plan: Plan, *, by_layer: bool = False) -> tuple[Tensor, list[float]]:
    """Weights and losses of one machine; `by_layer` draws masks as a pipeline does."""
    flat = setup.flat()
    pieces = setup.pieces(flat)

    def run(module: nn.Module, inputs: Sequence[Tensor], step: int, microbatch: int) -> Tensor:
        tensors = tuple(inputs)
        for layer in range(1, len(pieces) + 1):
            with seeded(setup.seed, STEP, step, microbatch, layer, 0):
                tensors = pieces.run(layer, layer, tensors)
        return tensors[0]

    with training.fixed_threads():
        losses = accumulated(
            flat.module,
            microbatches(setup, plan),
            torch.optim.SGD(
                [p for p in flat.module.parameters() if p.requires_grad],
                SGD.learning_rate,
                SGD.momentum,
                weight_decay=SGD.weight_decay,
            ),
            loss_of,
            run=run if by_layer else plain,
            last_first=plan.schedule == "gpipe",
        )
        again = training.flatten(setup.made(), setup.inputs(flat.module))
        again.adopt(flat.module)
    return again.parameters, losses


CHANGES: dict[str, dict[str, Any]] = {
    "queued": {},
    "blocking": {"blocking": True},
    "recompute": {"recompute": (True, "layers", "layers")},
    "deep": {"in_flight": (4, 3, 1)},
}
EVERY = [f"{schedule} {change}" for schedule in SCHEDULES for change in CHANGES]
USUAL = ("gpipe queued", "1f1b blocking", "gpipe recompute", "1f1b deep")


@pytest.mark.parametrize("how", usually(USUAL, EVERY))
@pytest.mark.parametrize("make", [Shortcut, normalised, dropping, Adapted, small_gpt])
def test_a_pipeline_learns_what_one_machine_accumulates(
    make: Callable[[], nn.Module], how: str
) -> None:
    setup = setup_of(make)
    schedule, change = how.split()
    plan = plan_of(setup.problem, *ONE_EACH, schedule=schedule, **CHANGES[change])
    trained = train(setup, plan)
    weights, losses = alone(setup, plan, by_layer=make in (dropping, small_gpt))
    if make is not small_gpt:  # whose tied weight has gradients of two layers
        assert torch.equal(trained.weights, weights)
    torch.testing.assert_close(trained.weights, weights, rtol=1e-6, atol=1e-6)
    assert trained.losses == pytest.approx(losses, rel=1e-5)


@pytest.mark.parametrize("make", [Shortcut, Adapted, small_gpt])
def test_replicas_of_unequal_shares_learn_what_one_machine_does(
    make: Callable[[], nn.Module],
) -> None:
    """Node 1 is in the first and the last stage; masks are each replica's own, so none drop."""
    setup = setup_of(without_dropout if make is small_gpt else make)
    plan = plan_of(setup.problem, *REPLICAS)
    weights, losses = alone(setup, plan)
    trained = train(setup, plan)
    torch.testing.assert_close(trained.weights, weights, rtol=1e-6, atol=1e-6)
    assert trained.losses == pytest.approx(losses, rel=1e-5)


def without_dropout() -> nn.Module:
    return GPT(16, 32, width=8, depth=2, heads=2, dropout=0.0)


def test_a_tied_weight_is_learnt_on_one_node_in_two_stages() -> None:
    setup = setup_of(small_gpt)
    plan = plan_of(setup.problem, [(1, 2)], [(2, 2)], [(1, 2)])
    weights, _ = alone(setup, plan, by_layer=True)
    trained = train(setup, plan)
    torch.testing.assert_close(trained.weights, weights, rtol=1e-6, atol=1e-6)
    assert setup.problem.tied


def test_a_node_computes_one_stage_again_while_its_other_keeps_running_statistics() -> None:
    setup = setup_of(normalised)
    plan = plan_of(setup.problem, [(1, 2)], [(2, 2)], [(1, 2)], recompute=("layers", False, True))
    trained = train(setup, plan)
    weights, _ = alone(setup, plan)
    assert torch.equal(trained.weights, weights)
    apart = train(setup, plan_of(setup.problem, *ONE_EACH))
    assert trained.epochs["loss"].to_list() == apart.epochs["loss"].to_list()


@pytest.mark.parametrize("make", [normalised, dropping])
def test_every_plan_of_single_nodes_learns_the_same(make: Callable[[], nn.Module]) -> None:
    """With statistics and masks of a micro-batch, which no plan changes."""
    setup = setup_of(make)
    first = train(setup, plan_of(setup.problem, [(2, 4)]))
    again = train(setup, plan_of(setup.problem, [(0, 4)], [(1, 4)], in_flight=(3, 2)))
    assert torch.equal(first.weights, again.weights)
    assert first.losses == again.losses
    assert first.epochs["loss"].to_list() == again.epochs["loss"].to_list()


@pytest.mark.parametrize("make", [Shortcut, Adapted])
@pytest.mark.parametrize("groups", [ONE_EACH, [[(0, 1), (3, 1)], [(1, 2)], [(2, 2)]]])
def test_without_a_flush_stages_learn_with_stashed_weights(
    make: Callable[[], nn.Module], groups: Any
) -> None:
    """Whatever the first stage: with frozen layers alone it sends ahead, and ends epochs too."""
    setup = setup_of(make, flushes=False)
    plan = plan_of(setup.problem, *groups, recompute=(False, True, False))
    layers = setup.pieces(setup.flat()).parameters
    names = [
        sorted(frozenset().union(*layers[stage.first - 1 : stage.last])) for stage in plan.stages
    ]
    flat = setup.flat()
    with training.fixed_threads():
        each = [pair for step in microbatches(setup, plan) for pair in step]
        plain_sgd = replace(setup, sgd=training.Sgd(0.05, momentum=0.9))
        trained = train(plain_sgd, plan)
        expected = stashed(setup.made, names, each, loss_of, learning_rate=0.05, momentum=0.9)
    for name, part in flat.layout.tensor_slices.items():
        flat.parameters[part] = expected[name].flatten()
    torch.testing.assert_close(trained.weights, flat.parameters, rtol=1e-6, atol=1e-6)
    assert len(trained.losses) == STEPS


def test_measured_as_simulated(ray_session: Session) -> None:
    setup = setup_of(normalised)
    seconds = 1e-3 * setup.problem.forward_s
    problem = replace(setup.problem, forward_s=seconds, backward_s=seconds, update_s=0 * seconds)
    links = dict.fromkeys(problem.links, FAST)
    setup = replace(setup, problem=replace(problem, links=links), cluster=None)
    plan = plan_of(setup.problem, *REPLICAS, blocking=True)
    simulated: Trained = train(setup, plan)
    measured: Trained = training.train(setup, plan, RunOptions(measured=True))
    assert torch.equal(measured.weights, simulated.weights)
    assert measured.epochs["loss"].to_list() == simulated.epochs["loss"].to_list()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tied": ()}, "but GPT uses 'tokens.weight' in layers"),
        ({"first_trained": 2}, "trains layers from 2 on, but GPT from 1"),
        ({"tied": (Tied(4, (1, 2)),)}, "give tied="),
    ],
)
def test_problems_of_other_models_are_refused(change: dict[str, Any], message: str) -> None:
    setup = setup_of(small_gpt)
    setup = replace(setup, problem=replace(setup.problem, **change))
    with pytest.raises(UserError, match=message):
        train(setup, plan_of(setup.problem, *ONE_EACH))


def test_other_layers_are_refused() -> None:
    setup = setup_of(Shortcut)
    problem = uniform(4, BATCH)
    with pytest.raises(UserError, match="problem has 4 layers, but Shortcut has 5"):
        train(replace(setup, problem=problem), plan_of(problem, *ONE_EACH))
