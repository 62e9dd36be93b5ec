"""The testbed: what is stated, what follows from data sheets, who learns at which scale."""

import pytest

from workbench.edgegossip.paper.accuracy import ALL_TECHNIQUES
from workbench.edgegossip.paper.cases import LEARNING
from workbench.edgegossip.paper.testbed import (
    MODELS,
    POINTS,
    STATED,
    Constants,
    Testbed,
    kinds,
    paper_testbed,
)
from workbench.edgegossip.prediction.predictor import Contention
from workbench.profiles import profile_model
from workbench.reproduction.parameters import SCALES

QUIET = Testbed(Constants(host_ms=0.2, intensity=0.0))


def test_the_first_deployment_is_the_papers() -> None:
    one = paper_testbed().deployment("lenet5")
    assert [platform.name for platform in one.platforms] == [
        "cpu0",
        "cpu1",
        "titan_xp2",
        "rtx_2080_ti3",
    ]
    assert one.points == (POINTS // 4,) * 4


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20])
def test_half_of_the_platforms_have_gpus(count: int) -> None:
    assert len(kinds(count)) == count
    assert kinds(count).count("cpu") in (count / 2, (count + 1) / 2)


def test_seconds_by_hand() -> None:
    host_s, device_s = QUIET.seconds("lenet5", "titan_xp")
    assert host_s == pytest.approx(2e-4)
    assert device_s == pytest.approx(3 * profile_model("lenet5").forward_flops / (0.2 * 12.15e12))


def test_only_the_hosts_part_of_a_sample_suffers_on_a_gpu() -> None:
    busy = Contention(core=1.0)
    cpu, gpu = (QUIET.predictor("alexnet_cifar", kind) for kind in ("cpu", "rtx_2080_ti"))
    assert cpu.slowdown(busy) == pytest.approx(1 + STATED["slowdown"]["core"])
    host_s, device_s = QUIET.seconds("alexnet_cifar", "rtx_2080_ti")
    slowed_s = gpu.seconds(gpu.baseline_s, busy)
    assert slowed_s == pytest.approx((1 + STATED["slowdown"]["core"]) * host_s + device_s)


def test_samples_that_stand_for_several_take_as_long() -> None:
    whole = QUIET.deployment("alexnet_cifar")
    part = QUIET.deployment("alexnet_cifar", points=125, stands_for=100.0)
    for one, other in zip(whole.platforms, part.platforms, strict=True):
        assert other.sample_s == pytest.approx(100 * one.sample_s)
    assert part.course(2)[-1].end_s == pytest.approx(whole.course(2)[-1].end_s)


def test_a_smaller_model_travels_as_long_as_the_one_it_stands_for() -> None:
    one = QUIET.deployment("alexnet_cifar")
    link = one.cluster(model_bytes=1e6).nodes[0].uplink
    assert link is not None
    assert link.constant is not None
    seconds = 2 * 1e6 * 8 / link.constant + one.overhead_s  # two peers
    assert seconds == pytest.approx(one.exchange_s)


def test_what_is_assumed_is_the_testbeds_own() -> None:
    assumed = {"operations_per_s": 5e8, "backward_over_forward": 3.0, "window_s": 7.0}
    adds = Testbed(Constants(0.2), STATED["assumed"] | assumed).deployment("lenet5").options()
    stated = QUIET.deployment("lenet5").options()
    assert adds.aggregating_s(100) == pytest.approx(2 * stated.aggregating_s(100))
    assert adds.forward_share == pytest.approx(1 / 4)
    assert adds.window_s == 7


@pytest.mark.parametrize("uplink_mbps", [0, -1.0, float("inf"), float("nan")])
def test_an_uplink_that_cannot_be_is_refused(uplink_mbps: float) -> None:
    with pytest.raises(ValueError, match="uplink_mbps is"):
        QUIET.deployment("lenet5", uplink_mbps=uplink_mbps)


def test_data_may_be_dealt_out_and_all_be_peers() -> None:
    assumed = STATED["assumed"] | {"points_per_platform": None, "peers": None}
    one = Testbed(Constants(0.2), assumed).deployment("lenet5", 8)
    assert one.points == (POINTS // 8,) * 8
    assert one.exchange_s - one.overhead_s == pytest.approx(
        7 / 2 * (QUIET.deployment("lenet5", 8).exchange_s - one.overhead_s)
    )


@pytest.mark.parametrize("scale", SCALES)
def test_each_model_has_a_learner(scale: str) -> None:
    learners = LEARNING.at(scale)
    assert tuple(learners) == MODELS
    own = scale == "paper"
    assert [learners[name].learner == name for name in MODELS] == [True, own, own, own]
    assert set(ALL_TECHNIQUES.at(scale)) <= set(MODELS)
