"""A case's training: periods in the learner's terms, and what each field changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import polars as pl
import pytest

from workbench.dlion import Growth, Setup, System
from workbench.dlion.algorithms import SYSTEMS
from workbench.dlion.algorithms.ako import Blocks
from workbench.dlion.algorithms.global_batch import GlobalBatch, step
from workbench.dlion.algorithms.max_n import PerLinkAddedUp
from workbench.dlion.gradient import Accumulated
from workbench.dlion.paper import cases
from workbench.dlion.paper.cases import (
    ABOUT,
    CURVE,
    Case,
    Learning,
    about,
    curve,
    rows_of,
    run,
    system_of,
)
from workbench.dlion.paper.cases import LEARNING as USUAL
from workbench.dlion.paper.testbed import CANDIDATES, LOCAL_BATCH, Learner
from workbench.training import TrainingError
from workbench.utils.checks import UserError

SAMPLES = 1000
"""Of batches of 8 that stand for 10 iterations of 32: an epoch for 40 x 1000 / 50,000 = 0.8."""
LEARNER = Learner("cipher_small", "cipher", stands_for=10.0, local_batch=8)
LEARNING = Learning(LEARNER, 60, 12, evaluate_every=3, timing_period=7)


def given(case: Case) -> tuple[Setup, System, Any]:
    """What a case trains, and the options beside it."""
    kept: list[Any] = []

    def train(setup: Setup, system: System, **options: Any) -> None:
        kept.extend([setup, system, options])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cases, "train", train)
        run(case, LEARNING)
    return kept[0], kept[1], kept[2]


def system(case: Case) -> Any:
    """Its batching and transfer are there, or mypy would ask each time."""
    return system_of(case, LEARNING, SAMPLES)


class TestSystem:
    def test_periods_are_the_learners(self) -> None:
        found = system(Case())
        assert (found.transfer.period, found.transfer.losses) == (100 / 10, 20 / 10)
        assert found.batching.period == 7
        assert found.batching.sizes == (2, 8)

    def test_the_papers_own_learner_changes_nothing_but_timing_and_growth(self) -> None:
        learning = LEARNING._replace(learner=Learner(), timing_period=100)
        found = cast(Any, system_of(Case(), learning, 50_000))
        stated = cast(Any, SYSTEMS["dlion"])
        growth = stated.batching.growth
        oftener = replace(growth, every_epochs=0.6, warm_up_epochs=17 * 0.6)
        assert found.batching.growth == oftener
        assert found.batching.period == stated.batching.period
        assert (found.transfer.period, found.transfer.losses) == (100, 20)
        assert found.transfer.early_until == 0

    @pytest.mark.parametrize("growth_epochs", [None, 2])
    @pytest.mark.parametrize(
        ("scale", "samples"),
        [("smoke", 240), ("default", 1500), ("paper", 10_000), ("paper", 50_000)],
    )
    def test_the_global_batch_grows_at_every_scale_as_the_papers(
        self, scale: str, samples: int, growth_epochs: int | None
    ) -> None:
        """From 192 to 1 % of 50,000, or doubled behind the third epoch of them."""
        assert USUAL.at(scale).samples in (samples, None)
        learner = USUAL.at(scale).learner
        learning = LEARNING._replace(learner=learner)
        growth = cast(
            Any, system_of(Case(growth_epochs=growth_epochs), learning, samples)
        ).batching.growth
        state, sizes = GlobalBatch(6 * learner.local_batch), []
        for _ in range(learner.iterations(820)):
            state = step(state, growth, samples)
            sizes.append(state.size * LOCAL_BATCH / learner.local_batch)
        assert sizes == sorted(sizes)
        assert sizes[-1] > 192
        most = samples * LOCAL_BATCH / learner.local_batch  # all that there are
        assert sizes[-1] == min(500 if growth_epochs is None else 384, most)


OTHER = next(name for name, one in CANDIDATES.items() if one.links == "pair")
Says = Callable[[Any, Any], bool]
FIELDS: dict[str, tuple[Any, Says]] = {
    "system": ("gaia", lambda _, system: system == SYSTEMS["gaia"]),
    "environment": ("hetero_cpu_b", lambda setup, _: len({*speeds(setup)}) == 2),
    "seed": (3, lambda setup, _: setup.seed == 3),
    "techniques": (("links",), lambda _, system: system.batching is None),
    "n": (25.0, lambda _, system: system.generate_partial_gradients.n == 25),
    "accumulate": (
        True,
        lambda _, system: isinstance(system.generate_partial_gradients, Accumulated),
    ),
    "weighting": ("equal", lambda _, system: system.batching.weighting == "equal"),
    "growth_epochs": (
        2,
        lambda _, system: doubling(system.batching.growth) == (0, 2, epochs_of(1), epochs_of(2)),
    ),
    "period": (50, lambda _, system: system.transfer.period == 5),
    "share": (0.5, lambda _, system: system.transfer.share == 0.5),
    "whom": ("worst", lambda _, system: system.transfer.whom == "worst"),
    "early": (
        500,
        lambda _, system: (system.transfer.early_until, system.transfer.early_period) == (50, 1),
    ),
    "candidate": (
        OTHER,
        lambda setup, system: (
            setup.host_s == CANDIDATES[OTHER].host_ms / 1e3
            and setup.network.nodes[0].uplink is None
            and system.batching.growth.every_epochs == LEARNER.epochs(3.7, 60)
        ),
    ),
    "first_weights": ("shared", lambda setup, _: setup.first_weights == "shared"),
    "classes": (
        2,
        lambda setup, _: most_classes(setup) <= most_of_pieces(setup, 2),
    ),
    "workers": (9, lambda setup, _: setup.nodes == 9),
    "scenario": ("worker 1 crashes", lambda setup, _: setup.patience_s == 200),
}


def speeds(setup: Setup) -> list[float]:
    return [node.speed_over_time.at(0) for node in setup.network.nodes]


def epochs_of(of_paper: float) -> float:
    return LEARNER.epochs(of_paper, 60)


def doubling(growth: Growth) -> tuple[float, ...]:
    """Without the shares of the data, which are as always."""
    return astuple(growth)[:4]


def most_classes(setup: Setup) -> int:
    return max(len(np.unique(setup.dataset.y_train[held])) for held in setup.held)


def most_of_pieces(setup: Setup, pieces: int) -> int:
    """Classes of the pieces with most; sorted labels are cut alike whatever the seed."""
    cut = np.array_split(np.sort(setup.dataset.y_train), pieces * setup.nodes)
    return sum(sorted(len(np.unique(piece)) for piece in cut)[-pieces:])


class TestFields:
    def test_all_are_here(self) -> None:
        assert set(FIELDS) == set(Case._fields) == set(ABOUT) & set(Case._fields)

    @pytest.mark.parametrize("name", FIELDS)
    def test_each_changes_what_it_says(self, name: str) -> None:
        value, says = FIELDS[name]
        setup, system, _ = given(Case())
        assert not says(setup, system if name != "n" else SYSTEMS["max10"])
        n = 25.0 if name == "accumulate" else None  # of Max N
        setup, system, _ = given(Case(n=n)._replace(**{name: value}))
        assert says(setup, system)

    def test_what_is_not_sent_adds_up_or_is_forgotten(self) -> None:
        for name in ("dlion", "ako"):
            assert system(Case(name, accumulate=name == "ako")) == system(Case(name))
        assert system(Case(accumulate=True)).generate_partial_gradients is PerLinkAddedUp
        forgets = system(Case("ako", accumulate=False)).generate_partial_gradients
        assert isinstance(forgets, Blocks)
        assert forgets.left is None

    @pytest.mark.parametrize(
        "case", [Case("gaia", accumulate=True), Case(techniques=("links",), accumulate=False)]
    )
    def test_nothing_to_add_up(self, case: Case) -> None:
        with pytest.raises(UserError, match="accumulate"):
            system(case)

    def test_a_case_of_few_classes_and_many_workers(self) -> None:
        setup, *_ = given(Case(classes=2, workers=9))
        assert len(setup.held) == 9
        assert most_classes(setup) <= most_of_pieces(setup, 2)


class Done:
    """What a curve is made of: two workers, a third evaluation by one of them."""

    weights = (None, None)
    evaluations = pl.DataFrame(
        [
            {"at_s": 1.0, "node": 0, "top1": 0.2, "loss": 2.0},
            {"at_s": 2.5, "node": 1, "top1": 0.4, "loss": 1.0},
            {"at_s": 3.5, "node": 0, "top1": 0.1, "loss": 9.0},
            {"at_s": 3.5, "node": 0, "top1": 0.8, "loss": 0.5},  # in the same second, later
        ]
    )
    iterations = pl.DataFrame({"at_s": [1.0, 2.0, 2.5, 3.5], "global_batch": [8, 8, 16, 32]})
    transfers = pl.DataFrame({"at_s": [1.5, 3.5], "bytes": [1_000_000, 500_000]})


class TestRows:
    def test_a_curve_by_hand(self) -> None:
        found = pl.DataFrame(curve(cast(Any, Done()), 4.0, instants=4))
        assert found.columns == list(CURVE)[1:]
        assert found["at_s"].to_list() == [1, 2, 3, 4]
        assert found["top1"].to_list() == pytest.approx([None, None, 0.3, 0.6])
        assert found["top1_sd"].to_list()[2] == pytest.approx(0.2 / 2**0.5)
        assert found["loss"].to_list() == pytest.approx([None, None, 1.5, 0.75])
        assert found["iterations"].to_list() == [0.5, 1.0, 1.5, 2.0]
        assert found["mbytes"].to_list() == [0.0, 1.0, 1.0, 1.5]
        assert found["global_batch"].to_list() == [8, 8, 16, 32]

    def test_what_a_row_says_of_its_training(self) -> None:
        row = about(Case(techniques=("links", "transfer")), LEARNING)
        assert set(row) == set(ABOUT)
        assert row["techniques"] == "links + transfer"
        assert about(Case(techniques=()), LEARNING)["techniques"] == ""
        assert row["staleness"] is None
        assert about(Case("hop"), LEARNING)["staleness"] == 5
        assert (row["learner"], row["timed"], row["stands_for"]) == ("cipher_small", "cipher", 10)
        assert (row["dataset"], row["train_samples"], row["test_samples"]) == ("digits", 60, 12)
        assert row["seconds"] == 1500

    def test_a_training_that_fails_is_a_row_of_what_it_is(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fails(*_: object) -> None:
            raise TrainingError("training diverged", cast(Any, SimpleNamespace(run=None)))

        monkeypatch.setattr(cases, "run", fails)
        (row,) = rows_of(case=Case(n=10.0), learning=LEARNING)
        assert row == {**about(Case(n=10.0), LEARNING), "reason": "training diverged"}


def test_a_curve_is_the_same_to_the_last_bit_each_time() -> None:
    """Whatever order evaluations of equal times come in."""
    workers = range(6)
    evaluations = pl.DataFrame(
        {
            "node": list(workers),
            "at_s": [1.0] * 6,
            "top1": [0.1 * (node + 1) for node in workers],
            "loss": [1 / (node + 3) for node in workers],
        }
    )
    nothing = dict.fromkeys(("bytes", "global_batch"), pl.Int64)
    empty = pl.DataFrame(schema={"at_s": pl.Float64, **nothing})
    curves = []
    for seed in range(20):
        shuffled = evaluations.sample(fraction=1, shuffle=True, seed=seed)
        done: Any = SimpleNamespace(
            evaluations=shuffled, weights=workers, iterations=empty, transfers=empty
        )
        curves.append(curve(done, 2.0, instants=15))
    assert all(one == curves[0] for one in curves)
