"""The testbed: what is stated, times by hand, and a smaller learner that takes as long."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import pytest

from workbench import datasets
from workbench.clusters import Schedule
from workbench.datasets import Dataset
from workbench.dlion.algorithms.gaia import THRESHOLD
from workbench.dlion.algorithms.global_batch import Growth
from workbench.dlion.algorithms.hop import BACKUP, STALENESS
from workbench.dlion.algorithms.knowledge_transfer import Transfer
from workbench.dlion.algorithms.max_n import LEAST_N
from workbench.dlion.costs.iteration import Workload, iteration
from workbench.dlion.paper.cases import LEARNING
from workbench.dlion.paper.testbed import (
    POINTS,
    STATED,
    Constants,
    Learner,
    Testbed,
)
from workbench.dlion.training import train
from workbench.profiles import profile_model
from workbench.reproduction.parameters import SCALES
from workbench.reproduction.trainings import SEEDS
from workbench.zoo import MODELS as ZOO

CONSTANTS = Constants(
    sample_ms=5.0,
    host_ms=300.0,
    parallel_share=0.9,
    link_share=0.8,
    learning_rate=0.07,
    growth_epochs=0.6,
)
TESTBED = Testbed(CONSTANTS)
SMALL = Learner("cipher_small", "cipher", stands_for=6.0, local_batch=8, learning_rate=0.3)
CIPHER_BYTES = profile_model("cipher").param_bytes


def data(model: str = "cipher_small") -> Dataset:
    return datasets.load("digits").limit(train=60, test=6).fitted(ZOO[model].input_shape)


def speed(cores: int) -> float:
    return 1 / (0.1 + 0.9 / cores)


def mean_iteration_s(learner: Learner, environment: str) -> float:
    """Seconds of an iteration with Baseline, simulated: the same for all, since all wait."""
    setup = TESTBED.setup(learner, data(learner.model), environment)
    trained = train(replace(setup, seconds=None, iterations=4, evaluate_every=100), "baseline")
    ends_s = trained.iterations.filter(iteration=4)["at_s"]
    first_s = trained.iterations.filter(iteration=1)["at_s"]
    return (fmean(ends_s) - fmean(first_s)) / 3


def test_constants_of_the_algorithms_are_those_that_the_paper_states() -> None:
    batches, transfer, compared = STATED["batches"], STATED["knowledge"], STATED["compared"]
    limits = (batches["warm_up_limit"], batches["speed_up_limit"])
    assert (Growth.warm_up_share, Growth.speed_up_share) == limits
    assert STATED["gradients"]["least_n"] == LEAST_N
    assert (Transfer().period, Transfer().share) == (
        transfer["period_iterations"],
        transfer["merge"],
    )
    assert compared["gaia_threshold"] == THRESHOLD
    assert (compared["hop_backups"], compared["hop_staleness"]) == (BACKUP, STALENESS)
    assert SEEDS.paper == STATED["training"]["runs"]


def test_seconds_and_rates_by_hand() -> None:
    setup = TESTBED.setup(Learner(), data("cipher"), "hetero_sys_a")
    assert setup.host_s == 0.3
    assert setup.sample_s == pytest.approx(0.005)
    assert (setup.seconds, setup.local_batch, setup.sgd.learning_rate) == (1500, 32, 0.07)
    nodes = setup.network.nodes
    assert [node.speed_over_time.at(0.0) for node in nodes] == pytest.approx(
        [speed(cores) for cores in (24, 24, 12, 12, 6, 6)]
    )
    bps = [Schedule.of(node.uplink).at(0.0) for node in nodes if node.uplink is not None]
    assert bps == pytest.approx([0.8e6 * mbps for mbps in (50, 50, 35, 35, 20, 20)])


def test_an_iteration_by_hand() -> None:
    """On the LAN: the host, 32 samples on 24 cores, five gradients through an interface."""
    whole_s = 0.3 + 32 * 0.005 / speed(24) + 5 * 8 * CIPHER_BYTES / (0.8 * 1e9)
    assert mean_iteration_s(Learner(), "homo_a") == pytest.approx(whole_s)


@pytest.mark.parametrize("scale", SCALES)
def test_an_iteration_where_each_link_has_its_rate_to_itself(scale: str) -> None:
    """50 Mbit/s carry one gradient while the host and 32 samples take theirs; at every scale."""
    constants = replace(CONSTANTS, links="pair")
    learner = LEARNING.at(scale).learner
    setup = Testbed(constants).setup(learner, data(learner.model), "homo_b")
    trained = train(replace(setup, seconds=None, iterations=3, evaluate_every=100), "baseline")
    ends_s = trained.iterations.filter(node=0)["at_s"]
    whole_s = 0.3 + 32 * 0.005 / speed(24) + 8 * CIPHER_BYTES / (0.8 * 50e6)
    assert ends_s[2] - ends_s[1] == pytest.approx(learner.stands_for * whole_s)


@pytest.mark.parametrize("environment", ["homo_a", "homo_b", "hetero_sys_a", "homo_c"])
def test_a_smaller_learner_takes_as_long_as_what_it_stands_for(environment: str) -> None:
    """By the cost model of Cipher itself, times the iterations that one stands for."""
    where = TESTBED.environment(environment)
    faster = STATED["assumed"]["gpu_over_core"] if where.unit == "GPUs" else 1.0
    cluster = where.cluster(parallel_share=0.9, link_share=0.8)
    cipher = Workload(CIPHER_BYTES, 0.005 / faster, 0.3, 32)
    paper_s = fmean(iteration(cluster, cipher, "baseline").iteration_s)
    assert mean_iteration_s(SMALL, environment) == pytest.approx(6 * paper_s, rel=1e-6)


def test_other_models_take_longer_by_their_operations_and_gpus_a_hundredth() -> None:
    flops = profile_model("mobilenet_v1").forward_flops / profile_model("cipher").forward_flops
    assert TESTBED.sample_s("mobilenet_v1") == pytest.approx(0.005 * flops)
    assert TESTBED.sample_s(unit="GPUs") == pytest.approx(0.005 / 100)
    mobile = Learner("mobilenet_v1_cifar", "mobilenet_v1")
    setup = TESTBED.setup(mobile, data("mobilenet_v1_cifar"), "homo_c")
    assert setup.sample_s == pytest.approx(0.005 * flops / 100)


def test_periods_and_epochs_of_a_learner() -> None:
    """60 samples in batches of 8 are 7.5 iterations of 6 each; 50,000 in batches of 32 are 1563."""
    assert SMALL.sample_stands_for == 24
    assert SMALL.epochs(3, 60) == 3 * 50_000 / (60 * 24)
    assert SMALL.iterations(100) == 17
    assert SMALL.iterations(1) == 1
    assert (Learner().iterations(100), Learner().epochs(3, POINTS)) == (100, 3)
