"""The paper's testbed against sums done by hand."""

from dataclasses import replace

import numpy as np
import pytest

from workbench.clusters import Link
from workbench.dynacomm import Plan, iteration, layer_costs
from workbench.dynacomm.paper.testbed import Constants, Testbed, paper_testbed, variant
from workbench.names import UnknownNameError
from workbench.profiles import LayerTimes, profile_model

CONSTANTS = Constants(
    link_efficiency=0.5,
    overhead_ms=10,
    backward_over_forward=3,
    whole_share=0.25,
    aggregation_mbps=1000,
)
TESTBED = Testbed({"lenet5": 100.0}, CONSTANTS, workers=8, servers=4, bandwidth_mbps=1000)


def test_workers_share_the_servers_interfaces() -> None:
    assert TESTBED.link.bandwidth_bps == 1000e6 * 4 / 8 * 0.5
    assert replace(TESTBED, workers=4).link.bandwidth_bps == 1000e6 * 0.5
    assert replace(TESTBED, workers=1).link.bandwidth_bps == 1000e6 * 0.5  # its own interface


def test_computation_adds_up_to_the_stated_speed() -> None:
    times = TESTBED.times("lenet5", batch_size=20)
    assert times.forward_s + times.backward_s == pytest.approx(20 / 100)
    assert times.backward_s == pytest.approx(3 * times.forward_s)


def test_costs_by_hand() -> None:
    costs = TESTBED.costs("lenet5", batch_size=20)
    profile = profile_model("lenet5")
    # All of LeNet-5's tensors are below the split bound: a quarter of 250 Mbit/s each.
    expected = profile.table["param_bytes"].to_numpy() * 8 / (250e6 * 0.25)
    assert costs.pull_s == pytest.approx(expected)
    assert np.array_equal(costs.push_s, costs.pull_s)
    assert costs.overhead_s == 0.01


def test_speedup_by_hand() -> None:
    alone_s = 20 / 100
    waiting_s = 8 * 61_706 * 4 * 8 / (4 * 1000e6)
    expected = 8 * alone_s / (iteration(TESTBED.costs("lenet5", 20), Plan()).total_s + waiting_s)
    assert TESTBED.speedup("lenet5", 20, Plan()) == pytest.approx(expected)


def test_models_without_a_stated_speed_run_at_the_mean_flop_rate() -> None:
    testbed = paper_testbed()
    rates = [
        testbed.speed(name) * profile_model(name).forward_flops
        for name in ("vgg19", "googlenet", "inception_v4", "resnet152", "resnet50")
    ]
    assert min(rates[:4]) < rates[4] < max(rates[:4])
    assert testbed.speed("vgg19") == 4.50


def test_variants_change_links_only() -> None:
    changed = variant(workers=2, bandwidth_mbps=500, overhead_ms=40)
    assert (changed.workers, changed.bandwidth_mbps) == (2, 500)
    assert changed.link.overhead_s == 0.04
    assert changed.samples_per_s == paper_testbed().samples_per_s


def test_unknown_model_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'resnet152'"):
        paper_testbed().costs("resnet-152", 32)


def test_no_workers_are_refused() -> None:
    with pytest.raises(ValueError, match="workers is 0"):
        variant(workers=0, bandwidth_mbps=1000)


def test_profile_and_times_of_different_models_are_refused() -> None:
    times = LayerTimes.from_flops(profile_model("vgg19"), flops_per_s=1e12, batch_size=1)
    with pytest.raises(ValueError, match="do not name the same layers"):
        layer_costs(profile_model("lenet5"), times, Link(1e9))
