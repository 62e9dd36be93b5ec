"""What no training takes: one error each, in the user's terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.dlion.trainings import DIGITS, RATE, SAMPLE_S, linear, mesh, setup
from workbench import datasets
from workbench.clusters import Cluster, Link, Node
from workbench.dlion import ENVIRONMENTS, Setup, System, TrainingError, synchronous, train
from workbench.dlion.algorithms.baseline import whole
from workbench.dlion.algorithms.synchronisation import MUST
from workbench.dlion.costs.iteration import Workload, iteration
from workbench.names import UnknownNameError
from workbench.runtime import Crash, SlowDown
from workbench.training import Sgd

ONE_WAY = Cluster([Node("a"), Node("b")], {("a", "b"): Link(1e6)})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cluster": None}, "neither of environment and cluster given; give either environment"),
        ({"environment": "homo_a"}, "both of environment and cluster given; give either env"),
        (
            {"cluster": None, "environment": "homo_aa"},
            "environment 'homo_aa'. Did you mean 'homo_a",
        ),
        ({"cluster": None, "environment": 5}, "environment is 5; give the name of one of ENVIRON"),
        (
            {"cluster": None, "environment": mesh(1, 1)},
            "^environment is a Cluster; give it as cluster=$",
        ),
        (
            {"cluster": ENVIRONMENTS["homo_a"]},
            "^cluster is an Environment; give it as environment=$",
        ),
        ({"cluster": 5}, "cluster is 5; give a Cluster"),
        ({"cluster": ONE_WAY}, "no link leads from b to a; links lead from b to: nowhere"),
        ({"seconds": 0}, r"seconds is 0\.0; it must be finite and above 0"),
        ({"seconds": False}, "seconds is False; give a number"),
        ({"seconds": -1.0}, r"seconds is -1\.0; it must be finite and above 0"),
        ({"seconds": float("inf")}, "seconds is inf; it must be finite"),
        ({"seconds": float("nan")}, "seconds is nan; it must be finite"),
        ({"seconds": "long"}, "seconds is 'long'; give a number"),
        ({"iterations": 0}, "iterations is 0; it must be a whole number of at least 1"),
        ({"iterations": 2.5}, r"iterations is 2\.5"),
        ({"iterations": "9"}, "iterations is '9'"),
        ({"epochs": 0}, "epochs is 0"),
        ({"local_batch": 0}, "local_batch is 0"),
        ({"local_batch": 8.0}, r"local_batch is 8\.0"),
        ({"evaluate_every": 0}, "evaluate_every is 0"),
        ({"sample_s": 0}, r"sample_s is 0\.0; it must be finite and above 0"),
        ({"sample_s": -1}, "sample_s is -1"),
        ({"sample_s": "slow"}, "sample_s is 'slow'; give a number"),
        ({"host_s": -1}, "host_s is -1; it must be at least 0 s"),
        ({"host_s": float("inf")}, "host_s is inf"),
        ({"flops_per_s": 0}, "flops_per_s is 0"),
        ({"backward_over_forward": -2}, "backward_over_forward is -2"),
        ({"patience_s": 0}, r"patience_s is 0\.0; it must be finite and above 0"),
        (
            {"patience_s": 6e-6, "local_batch": 8, "sample_s": 0.001},
            "patience_s is 6e-06, .* thousands of heartbeats .* at least 8e-06, .* of 0.008 s",
        ),
        ({"patience_s": float("inf")}, "patience_s is inf; it must be finite"),
        ({"first_weights": "Own"}, "Did you mean 'own'"),
        ({"sgd": 0.1}, r"sgd is 0\.1; give a training\.Sgd"),
        ({"seed": -1}, "seed is -1"),
        ({"shards": [np.arange(9)]}, "1 shards for a cluster of 3 nodes; each node needs one"),
        ({"shards": [np.arange(9), np.arange(9), np.arange(0)]}, "the shard of node 2 is .* at l"),
        (
            {"shards": [np.arange(9), np.arange(9), np.ones(3)]},
            "node 2 is of float64; give integers, ",
        ),
        ({"shards": [[0], [1], ["a"]]}, "node 2 is of <U1; give integers, the indices of its sam"),
        ({"shards": [[0], [1], [96]]}, "node 2 has indices from 96 to 96, but"),
        ({"shards": [[0], [1], [-1]]}, "node 2 has indices from -1 to -1, but"),
        ({"shards": 5}, "shards is 5; give the indices"),
        ({"dataset": "digits"}, "dataset is the name 'digits'"),
        ({"model": "cipher_smal"}, "Did you mean 'cipher_small'"),
        ({"dataset": datasets.load("digits").limit(train=2)}, "3 workers cannot share the 2 sam"),
    ],
)
def test_no_setup(changes: dict[str, Any], message: str) -> None:
    good = {"model": linear, "dataset": DIGITS, "cluster": mesh(1, 1, 1), "iterations": 2}
    with pytest.raises(ValueError, match=message):
        Setup(**{**good, **changes})


def test_no_system() -> None:
    with pytest.raises(UnknownNameError, match=r"system 'dlio'. Did you mean 'dlion'"):
        train(setup(), "dlio")
    with pytest.raises(TypeError, match="system is 5; give the name of one of SYSTEMS, or a Sys"):
        train(setup(), 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"setup is 'cipher'; give a Setup, as in Setup\("):
        train("cipher")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "sgd", [Sgd(RATE, momentum=0.9), Sgd(RATE, weight_decay=0.1), Sgd(RATE, 0.9, 0.0, True)]
)
def test_gradients_have_a_rate_alone(sgd: Sgd) -> None:
    with pytest.raises(ValueError, match=r"DLion applies peers' gradients .* give sgd=Sgd\(0\.1\)"):
        train(setup(sgd=sgd), "dlion")


def test_no_fault() -> None:
    with pytest.raises(ValueError, match="faults"):
        train(setup(), faults=SlowDown(0, 1, 2, 3))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"9"):
        train(setup(patience_s=1.0), faults=[Crash(9, 0.01)])


Hook = Callable[[Any, Any], Any]
HOOKS: dict[str, tuple[Hook, str]] = {
    "a list": (lambda gradient, links: [1], "of mine returned list; give the part for each peer"),
    "None": (lambda gradient, links: None, "returned NoneType; give the part for each peer"),
    "text": (lambda gradient, links: "x", "returned str; give"),
    "a part": (lambda gradient, links: gradient.whole, "returned Part; give the part for each"),
    "unknown peer": (lambda gradient, links: {3: gradient.whole}, "has a part for 3; links.peers"),
    "named peer": (lambda gradient, links: {"a": gradient.whole}, "has a part for 'a'; links"),
    "an array": (
        lambda gradient, links: {links.peers[0]: gradient.values},
        r"has ndarray for worker \d; give gradient.whole, gradient.part\(mask\) or None",
    ),
    "short mask": (
        lambda gradient, links: {links.peers[0]: gradient.part(np.ones(3, dtype=bool))},
        r"mask is bool of shape \(3,\); give a boolean for each of the 650 values",
    ),
    "mask of numbers": (
        lambda gradient, links: {links.peers[0]: gradient.part(gradient.values)},
        r"mask is float32 of shape \(650,\); give a boolean",
    ),
    "writes": (
        lambda gradient, links: gradient.values.fill(0),
        "read-only",
    ),
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


def test_a_synchronisation_that_fails() -> None:
    def wrong(progress: Any) -> bool:
        raise RuntimeError("no way")

    with pytest.raises(TrainingError, match="RuntimeError: no way"):
        train(setup(), System("mine", lambda gradient, links: {}, wrong))


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


def test_other_deadlocks_are_reported_whole() -> None:
    class Waits:
        def __init__(self, peer: Any) -> None:
            self.peer = peer

        async def learnt(self, iteration: int) -> None:
            await self.peer.receive("nothing", iteration, self.peer.there)

    def exchange(peer: Any) -> Waits:
        return Waits(peer)

    with pytest.raises(TrainingError, match=r"deadlock: .*\n.*worker0"):
        train(setup(), System("mine", exchange_models=exchange))


def test_one_that_never_lets_go_ends_with_patience() -> None:
    patient = setup(patience_s=0.05, iterations=3)
    found = train(patient, System("mine", lambda gradient, links: {}, lambda progress: False))
    assert found.run.results == dict.fromkeys(range(3), 3)
