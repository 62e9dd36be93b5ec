"""Trainings as real processes end with the weights of the simulation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars.selectors as cs
import pytest

from tests.dynacomm.training.trainings import DIGITS, LENET
from workbench import decentralised, dlion, hiertrain, training
from workbench.clusters import Link, full_mesh
from workbench.datasets import partition
from workbench.runtime.measured import MeasuredRun
from workbench.runtime.measured.sessions import Session
from workbench.training import RunOptions, TrainingError
from workbench.utils.checks import UserError
from workbench.utils.files import ROOT

FAST = Link(4e8, overhead_s=0.001)


def dynacomm() -> tuple[Any, Any]:
    return replace(LENET, link=FAST, workers=2, servers=2, epochs=2), "dynacomm"


def dynacomm_one_server() -> tuple[Any, Any]:
    return replace(LENET, link=FAST, workers=2, epochs=2), "sequential"


def hiertrain_hybrid() -> tuple[Any, Any]:
    layers = 5
    times = np.arange(1, layers + 1) * 1e-4
    problem = hiertrain.Problem(
        layer_s={tier: np.stack([times, times], 1) for tier in hiertrain.TIERS},
        update_s=dict.fromkeys(hiertrain.TIERS, times),
        param_bytes=times * 1e7,
        output_bytes=times * 1e6,
        sample_bytes=256,
        bandwidth_bps=dict.fromkeys(
            [("device", "edge"), ("edge", "cloud"), ("device", "cloud")], 1e8
        ),
        batch=32,
    )
    setup = hiertrain.Setup("lenet5", DIGITS.fitted((1, 28, 28)), problem, epochs=2)
    return setup, hiertrain.Hybrid(("edge", "device", "cloud"), 1, 3, 10, 8, 14)


def gossip() -> tuple[Any, Any]:
    """With batch normalisation, whose buffers come back, too."""
    data = DIGITS.limit(train=24, test=8).fitted((3, 32, 32))
    setup = decentralised.GossipSetup(
        "resnet20_cifar",
        data,
        shards=partition.by_size(data.y_train, [1, 1], seed=0),
        cluster=full_mesh(2, FAST),
        mixing=decentralised.metropolis_hastings(decentralised.ring(2)),
        batch_size=8,
        epochs=2,
    )
    return setup, None


CASES = [dynacomm, dynacomm_one_server, hiertrain_hybrid, gossip]


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
    data = DIGITS.fitted((1, 28, 28))
    setup = dlion.Setup(
        "lenet5", data, cluster=full_mesh(2, FAST), iterations=4, local_batch=8, flops_per_s=1e9
    )
    simulated = training.train(setup, dlion.SYSTEMS["baseline"])
    measured = training.train(setup, dlion.SYSTEMS["baseline"], RunOptions(measured="unpadded"))
    columns = ["node", "iteration", "samples", "global_batch"]
    for one, other in ((simulated.iterations, measured.iterations),):
        assert one.select(columns).sort(columns).equals(other.select(columns).sort(columns))
    moved = ["source", "target", "topic", "iteration", "values", "bytes"]
    assert sorted(simulated.transfers.select(moved).rows()) == sorted(
        measured.transfers.select(moved).rows()
    )
    assert len(measured.evaluations) == 2
    assert np.isfinite(measured.weights).all()
    assert not np.array_equal(measured.weights[0], np.zeros_like(measured.weights[0]))


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


def test_example_of_three_machines_learns_the_same_bits(
    ray_session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "three_machines.md").read_text(encoding="utf-8")
    code = page.partition("```python\n")[2].partition("```")[0]
    here = code.replace(', address="auto", resources=placed', "")
    assert here != code
    exec(here, {})
    assert capsys.readouterr().out.endswith("True\n")
