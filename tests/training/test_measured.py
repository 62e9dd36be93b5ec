"""Trainings as real processes end with the weights of the simulation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars.selectors as cs
import pytest

from tests.dynacomm.trainings import DIGITS, LENET
from tests.edgegossip.strategies import platforms
from tests.hiertrain.strategies import any_problem
from tests.training import systems
from workbench import decentralised, dlion, edgegossip, hiertrain, olpb, training
from workbench.clusters import Link
from workbench.comparison.validation.cases import of_scan_by_arithmetic
from workbench.runtime.measured import MeasuredRun
from workbench.runtime.measured.sessions import Session
from workbench.training import RunOptions, TrainingError
from workbench.utils.checks import UserError
from workbench.utils.files import ROOT

FAST = Link(4e8, overhead_s=0.001)
COLOURED = DIGITS.limit(train=24, test=8).fitted((3, 32, 32))


def dynacomm() -> tuple[Any, Any]:
    return replace(LENET, link=FAST, workers=2, servers=2, epochs=2), "dynacomm"


def dynacomm_one_server() -> tuple[Any, Any]:
    return replace(LENET, link=FAST, workers=2, epochs=2), "sequential"


def hiertrain_hybrid() -> tuple[Any, Any]:
    problem = any_problem(5, 32, layer_s=5e-5)
    setup = hiertrain.Setup("lenet5", DIGITS.fitted((1, 28, 28)), problem, epochs=2)
    return setup, hiertrain.Hybrid(("edge", "device", "cloud"), 1, 3, 10, 8, 14)


def gossip() -> tuple[Any, Any]:
    """With batch normalisation, whose buffers come back, too."""
    mixing = decentralised.Gossip(decentralised.ring(2))
    of = systems.gossip(
        "resnet20_cifar", COLOURED, 2, FAST, exchange=mixing, batch_size=8, epochs=2
    )
    return of, None


def edge_gossip(epochs: int = 1, **options: Any) -> tuple[Any, Any]:
    """One epoch, whose balance rests on what is known beforehand; a later one on its seconds."""
    data, who = DIGITS.fitted((1, 28, 28)), platforms(0.001, 0.002, 0.004)
    setup = edgegossip.Setup("lenet5", data, who, epochs=epochs, batch_size=8)
    return setup, edgegossip.EdgeGossip(ratio=5, **options)


def plain_gossip_on_platforms() -> tuple[Any, Any]:
    return edge_gossip(epochs=2)[0], None


def whole_gradients() -> tuple[Any, Any]:
    data = DIGITS.fitted((1, 28, 28))
    setup = systems.workers("lenet5", data, 2, FAST, iterations=4, local_batch=8)
    return setup, dlion.SYSTEMS["baseline"]


CASES = [
    dynacomm,
    dynacomm_one_server,
    hiertrain_hybrid,
    gossip,
    edge_gossip,
    plain_gossip_on_platforms,
]


def batch_norm_on_servers() -> tuple[Any, Any]:
    setup = replace(LENET, model="resnet20_cifar", dataset=COLOURED, batch_size=8, by_layer=True)
    return replace(setup, epochs=1), "layer_by_layer"


def batch_norm_on_tiers() -> tuple[Any, Any]:
    return systems.tiers("resnet20_cifar", COLOURED), systems.MIXED


TRIED = [*CASES, whole_gradients, batch_norm_on_servers, batch_norm_on_tiers]


@pytest.mark.parametrize("case", TRIED)
def test_warming_up_leaves_no_trace(case: Any) -> None:
    setup, how = case()
    plain, programs = training.train(setup, how), setup.programs(how)
    warmed = [program for program in programs.programs if hasattr(program, "warm_up")]
    assert warmed
    for program in warmed:
        program.warm_up()
    tried = training.run(programs)
    assert tried.epochs.equals(plain.epochs)
    for one, other in zip(weights(plain), weights(tried), strict=True):
        assert np.array_equal(np.asarray(one), np.asarray(other))


def weights(trained: Any) -> list[Any]:
    found = trained.weights
    return list(found) if isinstance(found, tuple) else [found]


@pytest.mark.parametrize("case", CASES)
def test_weights_and_epochs_are_those_of_the_simulation(case: Any, ray_session: Session) -> None:
    setup, how = case()
    simulated = training.train(setup, how)
    measured = training.train(setup, how, RunOptions(measured=True, trace=True))
    for one, other in zip(weights(simulated), weights(measured), strict=True):
        assert np.array_equal(np.asarray(one), np.asarray(other))
    keys = [name for name in ("epoch", "node") if name in simulated.epochs.columns]
    one, other = (
        each.epochs.sort(keys).select(~cs.by_name("at_s")) for each in (simulated, measured)
    )
    assert one.equals(other)
    assert isinstance(measured.run, MeasuredRun)
    assert measured.run.trace is not None


def test_a_run_by_iterations_brings_back_what_was_recorded(ray_session: Session) -> None:
    """Weights depend on when gradients arrive; what was exchanged does not."""
    setup, how = whole_gradients()
    simulated = training.train(setup, how)
    measured = training.train(setup, how, RunOptions(measured="unpadded"))
    columns = ["node", "iteration", "samples", "global_batch"]
    one, other = (each.iterations.select(columns).sort(columns) for each in (simulated, measured))
    assert one.equals(other)
    moved = ["source", "target", "topic", "iteration", "values", "bytes"]
    assert sorted(simulated.transfers.select(moved).rows()) == sorted(
        measured.transfers.select(moved).rows()
    )
    assert len(measured.evaluations) == 2
    assert np.isfinite(measured.weights).all()
    assert not np.array_equal(measured.weights[0], np.zeros_like(measured.weights[0]))


def test_platforms_balance_by_the_seconds_that_they_measured(ray_session: Session) -> None:
    """So from the second epoch on, samples differ a little from the simulation's, and weights."""
    setup, how = edge_gossip(epochs=3)
    measured = training.train(setup, how, RunOptions(measured=True))
    samples = measured.epochs.sort("epoch", "node")["samples"].to_numpy().reshape(3, 3)
    assert (samples.max(1) == len(setup.held[0])).all()  # the fastest learns from all
    assert (samples > 0).all()
    simulated = training.train(setup, how).epochs.filter(epoch=1).sort("node")["samples"]
    assert simulated.to_list() == samples[0].tolist()


def test_a_training_that_diverges_is_told_as_in_a_simulation(ray_session: Session) -> None:
    setup, how = dynacomm_one_server()
    wild = replace(setup, sgd=training.Sgd(1e6))
    with pytest.raises(TrainingError, match="use a smaller learning rate"):
        training.train(wild, how, RunOptions(measured=True))


def test_what_cannot_be_measured_yet_is_refused() -> None:
    with pytest.raises(UserError, match="measured"):
        RunOptions(measured="padded")  # type: ignore[arg-type]
    for where in ({"address": "auto"}, {"resources": {"phone": {"arm": 1}}}):
        with pytest.raises(UserError, match="address and resources are of measured runs"):
            RunOptions(**where)


def test_trainings_of_scans_are_refused() -> None:
    """Graphs, of which gradients are found, do not travel between processes."""
    pool = olpb.Pool((olpb.Node(1e9),) * 2)
    setup = olpb.Setup("lenet5", DIGITS.fitted((1, 28, 28)), pool, iterations=1)
    with pytest.raises(UserError, match="simulate it, or measure scans alone"):
        training.train(setup, "olpb", RunOptions(measured=True))


def test_scans_are_measured_alone(ray_session: Session) -> None:
    """Its nodes combine what the simulation's do, and no sooner."""
    case = of_scan_by_arithmetic("hillis_steele")
    simulated, measured = case.simulated, case.measure()
    counts = [done.run.results[done.cluster.index("server")] for done in (simulated, measured)]
    for one, other in zip(*counts, strict=True):
        assert (one.plan, one.dealt) == (other.plan, other.dealt)
        assert other.backward_s >= one.backward_s - 1e-6
    assert isinstance(measured.run, MeasuredRun)


def test_example_of_three_machines_learns_the_same_bits(
    ray_session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "three_machines.md").read_text(encoding="utf-8")
    code = page.partition("```python\n")[2].partition("```")[0]
    here = code.replace(', address="auto", resources=placed', "")
    assert here != code
    exec(here, {})
    assert capsys.readouterr().out.endswith("True\n")
