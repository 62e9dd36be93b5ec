"""What no training takes: one error each, in the user's terms."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.dlion.trainings import RATE, SAMPLE_S, setup
from workbench.decentralised import DiLoCo, Exchange, Gossip, MakeExchange, Step, Worker, complete
from workbench.dlion import (
    SYSTEMS,
    Batching,
    System,
    TrainingError,
    synchronous,
    train,
)
from workbench.dlion.algorithms.baseline import whole
from workbench.dlion.algorithms.synchronisation import MUST
from workbench.dlion.costs.iteration import Workload, iteration
from workbench.training import Sgd
from workbench.utils.checks import UnknownNameError


def test_no_system() -> None:
    with pytest.raises(UnknownNameError, match=r"system 'dlio'. Did you mean 'dlion'"):
        train(setup(), "dlio")
    with pytest.raises(TypeError, match="system is 5; give the name of one of SYSTEMS or"):
        train(setup(), 5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "sgd", [Sgd(RATE, momentum=0.9), Sgd(RATE, weight_decay=0.1), Sgd(RATE, 0.9, 0.0, True)]
)
def test_gradients_have_a_rate_alone(sgd: Sgd) -> None:
    with pytest.raises(ValueError, match=r"DLion applies peers' gradients .* give sgd=Sgd\(0\.1\)"):
        train(setup(sgd=sgd), "dlion")


Hook = Callable[[Any, Any], Any]
HOOKS: dict[str, tuple[Hook, str]] = {
    "a list": (lambda gradient, links: [1], "of mine returned list; give the part for each peer"),
    "a part": (lambda gradient, links: gradient.whole, "returned Part; give the part for each"),
    "unknown peer": (lambda gradient, links: {3: gradient.whole}, "has a part for 3; links.peers"),
    "an array": (
        lambda gradient, links: {links.peers[0]: gradient.values},
        r"has ndarray for worker \d; give gradient.whole, gradient.part\(mask\) or None",
    ),
    "short mask": (
        lambda gradient, links: {links.peers[0]: gradient.part(np.ones(3, dtype=bool))},
        r"mask is bool of shape \(3,\); give a boolean for each of the 650 values",
    ),
    "writes": (lambda gradient, links: gradient.values.fill(0), "read-only"),
    "raises": (lambda gradient, links: int("x"), "ValueError: invalid literal"),
    "other arguments": (lambda gradient: {}, "takes 1 positional argument"),  # type: ignore[dict-item, misc]
}


@pytest.mark.parametrize("kind", HOOKS)
def test_what_a_plug_in_may_not_do(kind: str) -> None:
    hook, message = HOOKS[kind]
    with pytest.raises(TrainingError, match=message) as raised:
        train(setup(), System("mine", hook, synchronous))
    assert "program of worker" in str(raised.value)
    assert raised.value.__cause__ is not None


def test_an_early_end_of_a_training_of_seconds_names_no_planned_iterations() -> None:
    with pytest.raises(TrainingError, match=r"\(0 iterations of all workers were done: `trained`"):
        train(setup(seconds=1.0), System("mine", lambda gradient, links: 1 / 0, synchronous))  # type: ignore[arg-type]


def test_one_that_never_lets_go_is_said_to_wait() -> None:
    """As by the cost model."""
    never = System("mine", whole, lambda progress: False)
    with pytest.raises(TrainingError, match=f"^all workers wait, and .*; {MUST} ") as raised:
        train(setup(), never)
    assert "\n" not in str(raised.value)
    assert raised.value.run.ended == "deadlock"
    with pytest.raises(ValueError, match=f"^all workers wait, and .*; {MUST}$"):
        iteration(setup().network, Workload(1e3, SAMPLE_S), never)
    some = System("mine", whole, lambda progress: 2 in progress.newest)
    with pytest.raises(TrainingError, match=f"^1 of 3 workers wait, such as worker2, .*; {MUST} "):
        train(setup(), some)


class Waiting(Exchange):
    """A worker that waits for what nobody sends."""

    async def after_step(self, step: Step) -> None:
        await self.worker.receive("nothing", math.inf)


class Waits(MakeExchange):
    def __call__(self, worker: Worker) -> Exchange:
        return Waiting(worker)


def test_other_deadlocks_are_reported_whole() -> None:
    with pytest.raises(TrainingError, match=r"deadlock: .*\n.*worker0"):
        train(setup(), Waits())


@pytest.mark.parametrize("how", [5, DiLoCo, lambda worker: None])
def test_what_is_neither_system_nor_exchange_is_refused(how: Any) -> None:
    with pytest.raises(TypeError, match=r"system is .*; give the name of one of SYSTEMS or EXCH"):
        train(setup(), how)


def test_gossip_takes_epochs() -> None:
    gossip, message = Gossip(complete(3)), "Gossip exchanges models at the end of an epoch"
    with pytest.raises(ValueError, match=message):
        train(setup(), gossip)
    with pytest.raises(ValueError, match=message):
        iteration(setup().network, Workload(1e3, SAMPLE_S), gossip)


def test_batches_of_more_than_there_is_are_not_timed() -> None:
    large = replace(SYSTEMS["dlion"], batching=Batching(sizes=(4, 10**9)))
    with pytest.raises(ValueError, match=r"batches of 1000000000 samples.* hold 96; give Batching"):
        train(setup(), large)


def test_one_that_never_lets_go_ends_with_patience() -> None:
    patient = setup(patience_s=0.05, iterations=3)
    found = train(patient, System("mine", lambda gradient, links: {}, lambda progress: False))
    assert found.run.results == dict.fromkeys(range(3), 3)
