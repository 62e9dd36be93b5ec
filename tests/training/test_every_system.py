"""A training's shell is the same in all systems: progress, early ends, errors, setups, columns."""

from __future__ import annotations

import copy
import hashlib
import inspect
import json
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
import torch

from tests.event_loop import in_event_loop
from tests.hiertrain.strategies import any_problem
from tests.other_process import printed
from tests.refusals import refusals
from tests.short_trainings import DIGITS
from tests.training.systems import each, gossip, platforms, pool, servers, workers
from workbench import decentralised, dlion, dynacomm, edgegossip, hiertrain, olpb
from workbench.clusters import Link, Schedule
from workbench.hiertrain import Hybrid
from workbench.runtime import (
    Crash,
    Fault,
    LinkDown,
    Lossy,
    ProgramError,
    Restart,
    SimulationError,
    SlowDown,
    progress,
)
from workbench.training import (
    RunOptions,
    Sgd,
    Standing,
    Trained,
    TrainingError,
    flatten,
    initialise,
)
from workbench.training.shell import check_losing_nothing
from workbench.training.trained import COLUMNS, SHARED, DivergedError
from workbench.utils import parallel

DATA = DIGITS.fitted((1, 28, 28))


class System(NamedTuple):
    """A setup of two epochs, and what trains it."""

    setup: Any
    train: Callable[..., Trained[Any]]


SLOW = Link(20e6)
OF_LENET: dict[str, Any] = {"module": "lenet5", "data": DATA, "epochs": 2}
OF_TWO: dict[str, Any] = {**OF_LENET, "nodes": 2, "link": SLOW}
SYSTEMS = {
    "dynacomm": System(servers(**OF_LENET, workers=2, batch_size=16), dynacomm.train),
    "hiertrain": System(
        hiertrain.Setup("lenet5", DATA, any_problem(5, 32), epochs=2),
        partial(hiertrain.train, policy=Hybrid(("edge", "device", "cloud"), 1, 3, 10, 8, 14)),
    ),
    "decentralised": System(
        gossip(**OF_TWO, exchange=decentralised.Gossip(decentralised.ring(2)), batch_size=32),
        decentralised.train,
    ),
    "edgegossip": System(platforms(**OF_LENET, nodes=2, batch_size=32), edgegossip.train),
    "dlion": System(workers(**OF_TWO, local_batch=8, evaluate_every=6, sgd=Sgd(0.02)), dlion.train),
    "olpb": System(pool(**OF_LENET, batch_size=16), olpb.train),
}
each_system = pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS)
WAITING = ("dynacomm", "hiertrain")  # nobody can go on without the others


def models(trained: Trained[Any]) -> list[torch.Tensor]:
    return each(trained.weights)


def counted(trained: Trained[Any]) -> pl.DataFrame:
    """What progress counts: epochs, or iterations of all workers."""
    return trained.iterations if isinstance(trained, dlion.Trained) else trained.epochs


@each_system
def test_training_begins_with_a_modules_weights_and_leaves_it_as_it_is(system: System) -> None:
    """A step too small to move a weight shows where a training began."""
    module = initialise("lenet5", 77)
    flat = flatten(copy.deepcopy(module), (1, 28, 28)).parameters.clone()
    for sgd, stays in ((Sgd(1e-30), True), (system.setup.sgd, False)):
        trained = system.train(replace(system.setup, model=module, epochs=1, sgd=sgd))
        for weights in models(trained):
            assert torch.equal(weights.to(flat.dtype), flat) is stays
    same = zip(module.parameters(), initialise("lenet5", 77).parameters(), strict=True)
    assert all(torch.equal(*pair) for pair in same)


class Drawing(torch.nn.Sequential):
    """Convolutions, batch normalisation and dropout: all that could differ."""

    def __init__(self) -> None:
        super().__init__(
            *(torch.nn.Conv2d(1, 8, 3, 2), torch.nn.BatchNorm2d(8), torch.nn.ReLU()),
            *(torch.nn.Flatten(), torch.nn.Dropout(0.2), torch.nn.Linear(8 * 13 * 13, 10)),
        )


def finished(name: str, threads: int | None = None, **changes: Any) -> Trained[Any]:
    """A training of a system; with a name that is no system's, one with more to go wrong."""
    if name in SYSTEMS:
        setup, train = SYSTEMS[name]
        return train(replace(setup, **changes), trace=True, threads=threads)
    faults = [Crash(0, 0.2), Restart(0, 0.9)]
    back: dict[str, Any] = {"faults": faults, "trace": True, "threads": threads}
    if name == "workers come back":
        patient = replace(SYSTEMS["dlion"].setup, patience_s=0.5, **changes)
        return dlion.train(patient, **back)
    if name == "plans change":
        unequal: dict[str, Any] = {"workers": 3, "servers": 2, "speeds": (1.0, 0.5, 0.25)}
        bandwidth = Schedule.of([(0, 200e6), (0.05, 2e6)])
        link = Link(bandwidth, 0.001, tensor_s=1e-4)
        setup = replace(SYSTEMS["dynacomm"].setup, link=link, **unequal, **changes)
        return dynacomm.train(setup, replan_every=1, planning_s=0.001, threads=threads)
    if name == "dropout and normalisation":
        setup = replace(SYSTEMS["dlion"].setup, model=Drawing, **changes)
        return dlion.train(setup, threads=threads)
    gossip = replace(SYSTEMS["decentralised"].setup, patience_s=1.0, epochs=3, **changes)
    if name == "models by chance":
        gossip = replace(gossip, exchange=decentralised.GoSgd(0.5))
    return decentralised.train(gossip, **back)


REPEATED = (
    *(*SYSTEMS, "workers come back", "plans change"),
    *("nodes come back", "models by chance", "dropout and normalisation"),
)


@cache
def digest(name: str, **options: Any) -> str:
    """Hash of every bit that a training ends with; other processes import this."""
    found = finished(name, **options)
    made = hashlib.sha256(repr((found.run.end_s, found.run.events)).encode())
    for one in models(found):
        made.update(one.numpy().tobytes())
    frames = [one for one in vars(found).values() if isinstance(one, pl.DataFrame)]
    for frame in [*frames, *([] if found.run.trace is None else [found.run.trace.frame])]:
        made.update(frame.write_csv().encode())
    return made.hexdigest()


class TestSameBits:
    @pytest.mark.parametrize("name", REPEATED)
    def test_any_number_of_threads_learns_the_same_bits_and_another_seed_others(
        self, name: str
    ) -> None:
        assert digest(name, threads=1) == digest(name, threads=3) != digest(name, seed=4)

    def test_another_process_learns_the_same_bits(self) -> None:
        code = f"import json\nfrom {__name__} import REPEATED, digest\n"
        code += "print(json.dumps({name: digest(name) for name in REPEATED}))"
        there = printed(code, OMP_NUM_THREADS="2", PYTHONHASHSEED="4242")
        assert json.loads(there) == {name: digest(name, threads=1) for name in REPEATED}

    def test_a_running_event_loop_learns_the_same_bits(self) -> None:
        async def cell() -> str:
            return digest.__wrapped__("plans change")

        assert in_event_loop(cell()) == digest("plans change", threads=1)

    @each_system
    def test_nothing_global_changes(self, system: System) -> None:
        torch.manual_seed(7)
        before, threads = torch.get_rng_state(), torch.get_num_threads()
        system.train(replace(system.setup, epochs=1), threads=threads + 1)
        assert torch.equal(torch.get_rng_state(), before)
        assert torch.get_num_threads() == threads


@each_system
def test_columns_are_the_shared_ones_and_a_systems_own(system: System) -> None:
    found = system.train(replace(system.setup, epochs=1)).epochs
    assert set(SHARED) <= set(found.columns)
    assert found.columns == [name for name in COLUMNS if name in found.columns]
    assert all(found.schema[name] == COLUMNS[name] for name in found.columns)


class TestSetups:
    @each_system
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"sgd": 0.1}, r"sgd is 0\.1; give a training\.Sgd"),
            ({"model": "lenet"}, "Did you mean 'lenet5'"),
            ({"model": 5}, r"model is 5; give the name of one in the zoo, a torch\.nn\.Module"),
            ({"dataset": "digits"}, r"dataset is the name 'digits'; give datasets\.load"),
            ({"dataset": None}, r"dataset is None; give a datasets\.Dataset"),
            ({"dataset": DIGITS}, r"digits has images \(1, 8, 8\), lenet5 takes \(1, 28, 28\)"),
            (
                {"model": torch.nn.Linear(784, 10), "dataset": DIGITS},
                r"not take samples of float32\[1,8,8\], as digits",
            ),
        ],
    )
    def test_what_no_training_takes(
        self, system: System, change: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            replace(system.setup, **change)

    @each_system
    def test_numbers_may_be_numpys(self, system: System) -> None:
        numpys: dict[str, Any] = {"epochs": np.int64(2), "seed": np.uint8(3)}
        setup = replace(system.setup, **numpys)
        assert (setup.epochs, setup.seed) == (2, 3)
        assert {type(setup.epochs), type(setup.seed)} == {int}

    @each_system
    def test_something_else_is_no_setup(self, system: System) -> None:
        with pytest.raises(TypeError, match=r"setup is 'lenet5'; give a (Gossip)?Setup"):
            system.train("lenet5")


test_options = refusals(
    RunOptions,
    {},
    {
        "faults": {
            "faults is SlowDown.*; give a list": [SlowDown(0, 1.0, 2.0, 3.0)],
            "5: give a Crash": [[5]],
        },
        "trace": {"trace is 'yes'; give True or False": ["yes"]},
        "progress": {"progress is 5; give True, or a function": [5]},
        "threads": {"threads is 0; it must be a whole number of at least 1": [0]},
    },
)


class TestFaults:
    @each_system
    def test_all_trainings_have_the_same_keywords(self, system: System) -> None:
        parameters = inspect.signature(system.train).parameters.values()
        named = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
        assert named[-4:] == ["faults", "trace", "progress", "threads"]

    def test_the_first_that_loses_is_named(self) -> None:
        slow = SlowDown(0, 1.0, 2.0, 3.0)
        check_losing_nothing([slow])
        with pytest.raises(ValueError, match=r"Crash\(node=1, at_s=2\) loses .* without end; stop"):
            check_losing_nothing([slow, Crash(1, 2), Restart(1, 3)], "stop")

    @each_system
    def test_options_are_refused_in_a_call(self, system: System) -> None:
        for options in ({"threads": 0}, {"faults": 5}, {"progress": 5}, {"trace": 5}):
            with pytest.raises(ValueError, match=next(iter(options))):
                system.train(system.setup, **options)

    @pytest.mark.parametrize("name", [*WAITING, "decentralised", "edgegossip", "dlion"])
    @pytest.mark.parametrize(
        "fault", [Crash(0, 1), Lossy(0, 1, 0.5), LinkDown(1, 0, 1, 2)], ids=type
    )
    def test_what_is_lost_would_be_waited_for(self, name: str, fault: Fault) -> None:
        setup, train = SYSTEMS[name]
        told = "give a SlowDown, .*" if name in WAITING else "give "
        with pytest.raises(ValueError, match=rf"without end; {told}patience_s=\.\.\."):
            train(setup, faults=[SlowDown(0, 1, 2, 2), fault])

    @pytest.mark.parametrize("name", WAITING)
    def test_a_slow_down_takes_time_and_changes_no_weight(self, name: str) -> None:
        setup, train = SYSTEMS[name]
        plain, slow = train(setup), train(setup, faults=[SlowDown(1, 0, 9, 50)])
        assert slow.run.end_s > plain.run.end_s
        assert torch.equal(slow.weights, plain.weights)
        assert slow.epochs.drop("at_s").equals(plain.epochs.drop("at_s"))


class TestEarlyEnds:
    @each_system
    def test_ctrl_c_leaves_the_epochs_that_are_done(self, system: System) -> None:
        first = system.train(replace(system.setup, epochs=1))

        def interrupts(now_s: float, events: int) -> None:
            if now_s > first.run.end_s:
                raise KeyboardInterrupt

        stopped = system.train(replace(system.setup, epochs=60), progress=interrupts)
        assert stopped.run.interrupted
        done = max(stopped.epochs["epoch"].to_list())
        assert 1 <= done < 60
        shared = ["epoch", "at_s", "loss"]  # gossip evaluates the last epoch at any rate
        whole = system.train(replace(system.setup, epochs=done)).epochs.select(shared)
        left = stopped.epochs.select(shared)
        before = pl.col("epoch") < done
        assert left.filter(before).equals(whole.filter(before))
        # Of workers that end an epoch at the same instant, either may have been first.
        assert set(left.rows()) <= set(whole.rows())

    @each_system
    def test_a_loss_that_is_no_number_has_a_way_out(self, system: System) -> None:
        wild = replace(system.setup, sgd=replace(system.setup.sgd, learning_rate=1e12), epochs=9)
        message = r"diverged: the loss is .* smaller learning rate than 1e\+12, as"
        with pytest.raises(TrainingError, match=message) as raised:
            system.train(wild, trace=True)
        error = raised.value
        assert isinstance(error.__cause__, DivergedError)
        assert isinstance(error, SimulationError)
        assert not isinstance(error, ProgramError)
        assert "\n" not in str(error)
        assert f"({len(counted(error.trained))} of " in str(error)
        assert error.run is error.trained.run
        assert error.run.ended == "failed"
        assert all(map(math.isfinite, error.trained.epochs["loss"]))
        check_copy(error, pickle.loads(pickle.dumps(error)))

    def test_error_of_another_process_keeps_what_there_is(self) -> None:
        with pytest.raises(TrainingError) as here:
            diverge("hiertrain")
        with pytest.raises(TrainingError) as there:
            list(parallel.as_finished(diverge, [("hiertrain",)] * 2, processes=2))
        check_copy(here.value, there.value)


def diverge(name: str) -> None:
    """Train until the loss is no number; other processes import this."""
    setup, train = SYSTEMS[name]
    train(replace(setup, sgd=Sgd(1e12)), trace=True)


def check_copy(error: TrainingError, copy: TrainingError) -> None:
    assert str(copy) == str(error)
    assert copy.reason == error.reason == str(error).partition(" (")[0]  # without what is kept
    assert type(copy.trained) is type(error.trained)
    assert copy.trained.epochs.equals(error.trained.epochs)
    assert all(map(torch.equal, models(copy.trained), models(error.trained)))
    assert copy.run is copy.trained.run
    assert copy.run.ended == "failed"
    assert copy.run.trace is not None


class TestProgress:
    def test_ends_of_epochs_count_the_iterations_up_to_them(self) -> None:
        """A worker learns from its last, smaller batch, too; tiers leave it out."""
        setups: dict[str, Any] = {name: SYSTEMS[name].setup for name in WAITING}
        train: Any = SYSTEMS["hiertrain"].train
        servers = setups["dynacomm"].programs()
        tiers = setups["hiertrain"].programs(train.keywords["policy"])
        samples = len(DATA.y_train)
        worker, tier = math.ceil(samples / 2 / 16), samples // 32
        assert servers.epoch_ends == (worker, 2 * worker)
        assert tiers.epoch_ends == (tier, 2 * tier)

    def test_epochs_percent_time_and_loss(self) -> None:
        assert Standing(0, 2, 0).at(0.0) == "0 of 2 epochs, 0 %, 0.0 virtual seconds"
        assert Standing(1, 2, 66, ("loss 0.123 in iteration 4",)).at(1234.56) == (
            "1 of 2 epochs, 66 %, 1,234.6 virtual seconds, loss 0.123 in iteration 4"
        )

    @each_system
    def test_true_shows_it(self, system: System, monkeypatch: pytest.MonkeyPatch) -> None:
        lines: list[str] = []

        class Kept(progress.Line):
            def __call__(self, text: str) -> None:
                lines.append(text)

            def close(self, text: str | None = None) -> None:
                lines.append(f"last: {text}")

        monkeypatch.setattr(progress, "Line", Kept)
        shown, plain = system.train(system.setup, progress=True), system.train(system.setup)
        assert all(map(torch.equal, models(shown), models(plain)))
        rows, what = counted(plain), "iterations" if isinstance(plain, dlion.Trained) else "epochs"
        assert f"{len(rows)} of {len(rows)} {what}" in lines[-2]
        assert ", 100 %, " in lines[-2]
        assert f"loss {rows['loss'][-1]:.3f}" in lines[-2] or (
            f"{rows['loss'][-1]:.3f} over all samples after epoch 2" in lines[-2]
        )
        assert lines[-1] == f"last: {lines[-2]}"
