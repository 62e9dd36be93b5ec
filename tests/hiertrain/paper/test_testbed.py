"""The testbed: capacities, shares, and times of layers counted by hand."""

from dataclasses import replace

import numpy as np
import pytest

from tests.refusals import refusals
from workbench.clusters import Link
from workbench.hiertrain import TIERS
from workbench.hiertrain.paper.testbed import (
    DEVICE_EDGE_MBPS,
    EDGE_CLOUD_MBPS,
    STATED,
    Constants,
    Testbed,
    capacity,
    paper_testbed,
    variant,
)
from workbench.profiles import profile_model

CONSTANTS = Constants(device_gflops=2.0, edge_core_gflops=8.0, cloud_over_edge_core=10.0)


def test_what_the_paper_states() -> None:
    assert DEVICE_EDGE_MBPS == 5
    assert EDGE_CLOUD_MBPS == (1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0)
    assert paper_testbed().constants.cloud_over_edge_core == STATED["cloud"]["over_edge_core"]
    assert paper_testbed().edge_cores == STATED["edge"]["cores_used"]


def test_second_threads_add_less_than_cores() -> None:
    second = STATED["assumed"]["second_thread"]
    assert 0 < second <= 0.3  # what Intel names for hyper-threading
    assert [capacity(n) for n in (1, 2, 3, 4)] == pytest.approx([1, 2, 2 + second, 2 + 2 * second])


def test_seconds_of_a_layer_by_hand() -> None:
    problem = Testbed(CONSTANTS, edge_cores=2).problem("lenet5_cifar", 16)
    table = profile_model("lenet5_cifar").table
    speeds = {"device": 2e9, "edge": 16e9, "cloud": 80e9}
    for tier in TIERS:
        for layer in range(problem.layers):
            row = table.row(layer, named=True)
            assert problem.layer_s[tier][layer] == pytest.approx(
                [row["forward_flops"] / speeds[tier], row["backward_flops"] / speeds[tier]]
            )
            update_flops = 2 * row["param_bytes"] / 4
            assert problem.update_s[tier][layer] == pytest.approx(update_flops / speeds[tier])


def test_samples_and_features_are_float32() -> None:
    problem = paper_testbed().problem("lenet5_cifar")
    assert problem.sample_bytes == 4 * 3 * 32 * 32
    assert problem.output_bytes[0] == 4 * 6 * 14 * 14


def test_equal_devices_share_the_edge_and_its_uplink() -> None:
    alone = variant(edge_cloud_mbps=4.0, edge_cores=2)
    shared = replace(alone, devices=4)
    whole, four = alone.problem("lenet5_cifar"), shared.problem("lenet5_cifar")
    assert four.layer_s["edge"] == pytest.approx(4 * np.asarray(whole.layer_s["edge"]))
    for tier in ("device", "cloud"):
        assert four.layer_s[tier] == pytest.approx(np.asarray(whole.layer_s[tier]))
    assert four.link("edge", "cloud") == four.link("device", "cloud") == Link(1e6)
    assert four.link("device", "edge") == whole.link("device", "edge")


test_testbed_refused = refusals(
    Testbed,
    {"constants": CONSTANTS},
    {
        "edge_cores": {"edge_cores is .*; it must be": [0, 5, 1.5]},
        "devices": {"devices is .*; it must be a whole number of at": [0, 1.5, True]},
        "edge_cloud_mbps": {r"edge_cloud_mbps is 0\.0; it must be above 0": [0.0]},
        "device_edge_mbps": {"device_edge_mbps is .*; give a number": ["5 Mbps", None, True]},
    },
)
