"""HierTrain's tiers in a comparison: their memory, several devices, who is edge and cloud."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.comparison.test_memory import of
from tests.hiertrain.strategies import chains, hybrids
from tests.long import usually
from tests.oracles import comparison as oracle
from workbench.clusters import Cluster, Link, Node, full_mesh, star
from workbench.comparison import METHODS, Problem
from workbench.comparison.memory import memory_of
from workbench.comparison.methods.tiers import team_of
from workbench.comparison.parts import Part, part_bytes, parts
from workbench.hiertrain import TIERS, Chain, Hybrid, Policy
from workbench.profiles import profile_model

MODEL, BATCH = "lenet5", 8
PROFILE = profile_model(MODEL)
LAYERS = len(PROFILE)
LINK = Link(1e7, overhead_s=0.01)


def boards(*samples: int, **about: float) -> list[Node]:
    return [Node(f"b{at}", flops_per_s=1e9, samples=n, **about) for at, n in enumerate(samples)]  # type: ignore[arg-type]


def problem_of(nodes: Sequence[Node], link: Link = LINK) -> Problem:
    return Problem(PROFILE, full_mesh(nodes, link), BATCH, memory=of(MODEL))


def three(**memory_bytes: float) -> Problem:
    """A device, an edge and a cloud, with memory where given."""
    return problem_of(
        [Node(name, flops_per_s=1e9, memory_bytes=memory_bytes.get(name)) for name in TIERS]
    )


def one_owner() -> Problem:
    """A device that holds all samples, an edge and a cloud."""
    nodes = [Node(name, flops_per_s=1e9, samples=10 * (name == "device")) for name in TIERS]
    return problem_of(nodes)


def needed_bytes(problem: Problem, part: Part) -> float:
    found = part_bytes(problem, part)
    assert found is not None
    return found


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    tier_problem = team_of(one_owner(), 1, 2).tier_problem
    policy: Policy = draw(st.one_of(hybrids(tier_problem), chains(tier_problem)))
    return policy


class TestMemoryOfParts:
    @pytest.mark.parametrize("place", range(3))
    def test_all_layers_on_one_tier_need_what_the_whole_model_does(self, place: int) -> None:
        problem, tier = three(), TIERS[place]
        others = [other for other in TIERS if other != tier]
        outputs = PROFILE.table["output_bytes"].to_numpy()
        whole = of(MODEL)(BATCH)
        for policy in (
            Hybrid((tier, *others), 0, 0, BATCH, 0, 0),  # type: ignore[arg-type]
            Chain((tier,) * LAYERS, BATCH),
        ):
            found = parts(policy, outputs)
            assert list(found) == [tier]
            assert needed_bytes(problem, found[tier]) == pytest.approx(whole, rel=1e-12)

    @given(policy=policies())
    @settings(max_examples=60, deadline=None)
    def test_parts_are_those_of_a_loop_over_layers_and_samples(self, policy: Policy) -> None:
        problem, table = three(), PROFILE.table
        found = parts(policy, table["output_bytes"].to_numpy())
        expected = oracle.tier_bytes(
            policy,
            table["param_bytes"].to_list(),
            table["output_bytes"].to_list(),
            (of(MODEL).fixed_bytes, of(MODEL)(BATCH)),
            problem.sample_bytes,
        )
        assert found.keys() == expected.keys()
        for tier, part in found.items():
            needed = needed_bytes(problem, part)
            assert needed == pytest.approx(expected[tier])

    def test_frozen_parameters_are_held_by_the_tier_that_has_them(self) -> None:
        module = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.Linear(512, 4))
        module[0].requires_grad_(False)
        profile, memory = profile_model(module, (64,)), memory_of(module, (64,), "float32")
        problem = Problem(profile, Cluster([Node("a", flops_per_s=1e9)]), BATCH, memory=memory)
        policy = Chain(("edge", "cloud"), BATCH)
        found = parts(policy, profile.table["output_bytes"].to_numpy())
        for tier, size in zip(("edge", "cloud"), profile.frozen_bytes, strict=True):
            assert (needed_bytes(problem, found[tier]) > 4 * 64 * 512) is (size > 0)

    @pytest.mark.parametrize("cut", range(1, 6))
    def test_estimates_are_near_plans_of_the_parts_themselves(self, cut: int) -> None:
        """Of convolutions in a row; up to 1.6 times as much for a first or a last layer alone.

        The first passes no gradient on, the last has hardly any outputs.
        """

        def block(into: int, out: int, stride: int = 1) -> torch.nn.Module:
            return torch.nn.Sequential(torch.nn.Conv2d(into, out, 3, stride, 1), torch.nn.ReLU())

        blocks = [
            *(block(3, 32), block(32, 32), block(32, 64, 2), block(64, 64), block(64, 128, 2)),
            torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(128 * 64, 10)),
        ]
        shape, samples = (3, 32, 32), 32
        whole = torch.nn.Sequential(*blocks)
        profile, memory = profile_model(whole, shape), memory_of(whole, shape, "float32")
        assert len(profile) == len(blocks)
        node = Cluster([Node("a", flops_per_s=1e9)])
        problem = Problem(profile, node, samples, memory=memory)
        ends = torch.nn.Sequential(*blocks[:cut]), torch.nn.Sequential(*blocks[cut:])
        between = tuple(ends[0](torch.zeros(1, *shape)).shape[1:])
        policy = Chain(("edge",) * cut + ("cloud",) * (len(blocks) - cut), samples)
        found = parts(policy, profile.table["output_bytes"].to_numpy())
        for tier, end, into in zip(("edge", "cloud"), ends, (shape, between), strict=True):
            itself = memory_of(end, into, "float32")
            assert itself is not None
            alone = len(end) == 1
            low, high = 0.8, 1.6 if alone else 1.2
            assert low < needed_bytes(problem, found[tier]) / itself(samples) < high

    def test_part_fits_a_node_that_has_its_memory(self) -> None:
        profile, memory = profile_model("resnet18"), of("resnet18")
        rates = set[float]()
        for share, fits in ((None, None), (1.01, True), (0.99, False)):
            room = None if share is None else share * memory(BATCH)
            nodes = [
                Node("device", flops_per_s=1e9, samples=100),
                Node("edge", flops_per_s=1e12, memory_bytes=room),
                Node("cloud", flops_per_s=1e12, memory_bytes=room),
            ]
            problem = Problem(profile, full_mesh(nodes, Link(1e9)), BATCH, memory=memory)
            plan = METHODS["all_edge"].plan(problem)
            assert plan.memory is not None
            (held,) = plan.memory.values()
            assert held.fits is fits
            rates.add(plan.cost.samples_per_s)
        assert len(rates) == 1


ALL_SEEDS = [range(at, at + 20) for at in range(0, 300, 20)]
BASELINES = ("all_edge", "all_cloud", "jointdnn", "jointdnn_plus")
SPEEDS = (1e7, 1e8, 1e9, 1e10, 1e12)


def random_cluster(random: Random) -> Cluster:
    """1 to 12 devices, equal or not, each linked with the edge and some with others."""
    count, equal = random.randint(1, 12), random.random() < 0.4
    edge, cloud = count, count + 1

    def link() -> Link:
        bandwidth_bps = random.choice([1e5, 1e6, 1e7, 1e8, 1e9])
        overhead_s, latency_s = random.choice([0, 1e-3, 2e-2]), random.choice([0, 0, 0.005, 0.1])
        return Link(bandwidth_bps, overhead_s=overhead_s, latency_s=latency_s)

    own, shape = random.choice(SPEEDS), random.choice(["star", "mesh", "tree"])
    nodes = [
        Node(
            f"d{at}",
            flops_per_s=own if equal else random.choice(SPEEDS),
            samples=100 if equal else random.choice([1, 100, 1000]),
        )
        for at in range(count)
    ]
    nodes += [Node(name, flops_per_s=random.choice(SPEEDS)) for name in ("edge", "cloud")]
    links: dict[tuple[int | str, int | str], Link] = {}

    def both_ways(a: int, b: int, there: Link) -> None:
        links[a, b] = there
        links[b, a] = there if equal or random.random() < 0.7 else link()

    both_ways(edge, cloud, link())
    alike = link()
    for device in range(count):
        both_ways(device, edge, alike if equal else link())
        if shape == "mesh":
            both_ways(device, cloud, link())
        if shape == "tree" and device:
            both_ways(device, random.randrange(device), link())
    return Cluster(nodes, links)


class TestSeveralDevices:
    @pytest.mark.parametrize("seeds", usually([ALL_SEEDS[0]], ALL_SEEDS))
    def test_hiertrain_is_never_slower_than_what_it_contains(self, seeds: range) -> None:
        for seed in seeds:
            random = Random(seed)
            cluster = random_cluster(random)
            problem = Problem(PROFILE, cluster, random.choice([1, 4, 8, 16]))
            whole = METHODS["hiertrain"].plan(problem)
            for name in BASELINES:
                part = METHODS[name].plan(problem)
                assert whole.cost.iteration_s <= part.cost.iteration_s * (1 + 1e-9), (seed, name)

    def test_devices_send_side_by_side(self) -> None:
        """Each sends its share of the samples over its own link; edge and cloud take no time."""
        servers = [Node(name, flops_per_s=1e15) for name in ("edge", "cloud")]
        problem = problem_of([*boards(100, 300), *servers], Link(1e6, overhead_s=0.5))
        plan = METHODS["all_edge"].plan(problem)
        sent_s = 0.5 + 8 * 0.75 * BATCH * problem.sample_bytes / 1e6
        assert plan.cost.iteration_s == pytest.approx(sent_s, rel=1e-3)
        assert problem.share(plan.learns_from) == 1
        assert plan.cost.samples == BATCH


class TestEdgeAndCloud:
    def assumes(self, *nodes: Node) -> str:
        return "; ".join(METHODS["hiertrain"].plan(problem_of(nodes)).assumes)

    def test_nodes_without_samples_come_first_however_slow(self) -> None:
        slow = [Node(name, flops_per_s=1e6) for name in ("x", "y")]
        plan = METHODS["all_edge"].plan(problem_of([*boards(10, 10, 10), *slow]))
        assert set(plan.batches) <= {3, 4}

    def test_owner_that_is_edge_or_cloud_is_an_assumption(self) -> None:
        edge = Node("edge", flops_per_s=1e11)
        assert "since only edge holds none" in self.assumes(*boards(10, 10), edge)
        assert "since all nodes hold some" in self.assumes(*boards(10, 10, 10))
        assert "edge or cloud as well" not in self.assumes(
            *boards(10, 10), edge, Node("cloud", flops_per_s=1e12)
        )

    def test_only_node_without_samples_is_edge_or_cloud_of_all(self) -> None:
        nodes = [*boards(10, 10, 10), Node("edge", flops_per_s=1e6)]
        assert re.search("(edge|cloud) = edge", METHODS["all_edge"].plan(problem_of(nodes)).where)

    def test_tier_that_has_the_memory_is_preferred_to_a_faster_one(self) -> None:
        servers = [
            Node("small", flops_per_s=1e12, memory_bytes=1e3),
            *(Node(f"s{at}", flops_per_s=1e11, memory_bytes=1e3) for at in range(3)),
            Node("large", flops_per_s=1e10, memory_bytes=1e9),
        ]
        plan = METHODS["all_edge"].plan(problem_of([*boards(10), *servers]))
        assert list(plan.batches) == [5]
        assert plan.memory is not None
        assert plan.memory[5].fits is True


def test_devices_that_are_alike_are_one_kind() -> None:
    servers = [Node("edge", flops_per_s=1e11), Node("cloud", flops_per_s=1e12)]
    problem = Problem(PROFILE, star(boards(*[10] * 8), servers, LINK), BATCH)
    assert len({id(problem) for problem, _ in team_of(problem, 8, 9).devices}) == 1
    plan = METHODS["all_edge"].plan(problem)
    sent = [plan.cost.link_bytes[at, edge] for at in range(8) for edge in plan.batches]
    assert np.allclose(sent, sent[0])


def test_overhead_of_a_pass_counts_once_a_batch() -> None:
    """Three passes over each layer, and its update; HierTrain plans with a sample's share of it."""
    plain, slow = (
        problem_of([replace(node, overhead_s=overhead_s) for node in boards(10, 10, 10)])
        for overhead_s in (0.0, 0.1)
    )
    assert slow.batch_s(0) - plain.batch_s(0) == pytest.approx(4 * 0.1 * len(slow.profile))
    plans = [METHODS["hiertrain"].plan(problem).cost.iteration_s for problem in (plain, slow)]
    assert plans[0] < plans[1] < plans[0] + 2 * 4 * 0.1 * len(slow.profile)
