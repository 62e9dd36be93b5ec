"""HierTrain's tiers in a comparison: their memory, devices in turns, who is edge and cloud."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.comparison.test_memory import of
from tests.hiertrain.strategies import chains, hybrids
from tests.oracles import comparison as oracle
from workbench.clusters import Cluster, Link, Node, full_mesh, star
from workbench.comparison import WAYS, Question
from workbench.comparison.memory import memory_of
from workbench.comparison.parts import Part, part_memory, parts
from workbench.comparison.ways.tiers import problem_of
from workbench.comparison.ways.turns import Turn, Turns, successions
from workbench.hiertrain import PLANNERS, TIERS, Chain, Hybrid, Policy, Problem
from workbench.profiles import profile_model
from workbench.utils.numbers import bytes_as_text

MODEL, BATCH = "lenet5", 8
PROFILE = profile_model(MODEL)
LAYERS = len(PROFILE)
LINK = Link(1e7, overhead_s=0.01)


def boards(*samples: int, **about: float) -> list[Node]:
    return [Node(f"b{at}", flops_per_s=1e9, samples=n, **about) for at, n in enumerate(samples)]  # type: ignore[arg-type]


def asked(nodes: Sequence[Node], link: Link = LINK) -> Question:
    return Question(PROFILE, full_mesh(nodes, link), BATCH, memory=of(MODEL))


def three(**rooms: float) -> Question:
    """A device, an edge and a cloud, with memory where given."""
    return asked([Node(name, flops_per_s=1e9, memory_bytes=rooms.get(name)) for name in TIERS])


def needed_bytes(question: Question, place: int, part: Part) -> float:
    found = part_memory(question, place, part)
    assert found is not None
    return found[0].needed_bytes


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    problem = problem_of(three(), (0, 1, 2))
    policy: Policy = draw(st.one_of(hybrids(problem), chains(problem)))
    return policy


class TestMemoryOfParts:
    @pytest.mark.parametrize("place", range(3))
    def test_all_layers_on_one_tier_need_what_the_whole_model_does(self, place: int) -> None:
        question, tier = three(), TIERS[place]
        others = [other for other in TIERS if other != tier]
        outputs = PROFILE.table["output_bytes"].to_numpy()
        whole = of(MODEL)(BATCH)
        for policy in (
            Hybrid((tier, *others), 0, 0, BATCH, 0, 0),  # type: ignore[arg-type]
            Chain((tier,) * LAYERS, BATCH),
        ):
            found = parts(policy, outputs)
            assert list(found) == [tier]
            assert needed_bytes(question, place, found[tier]) == pytest.approx(whole, rel=1e-12)

    @given(policy=policies())
    @settings(max_examples=60, deadline=None)
    def test_parts_are_those_of_a_loop_over_layers_and_samples(self, policy: Policy) -> None:
        question, table = three(), PROFILE.table
        found = parts(policy, table["output_bytes"].to_numpy())
        expected = oracle.tier_bytes(
            policy,
            table["param_bytes"].to_list(),
            table["output_bytes"].to_list(),
            (of(MODEL).fixed_bytes, of(MODEL)(BATCH)),
            question.sample_bytes,
        )
        assert found.keys() == expected.keys()
        for tier, part in found.items():
            needed = needed_bytes(question, TIERS.index(tier), part)
            assert needed == pytest.approx(expected[tier])

    def test_frozen_parameters_are_held_by_the_tier_that_has_them(self) -> None:
        module = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.Linear(512, 4))
        module[0].requires_grad_(False)
        profile, memory = profile_model(module, (64,)), memory_of(module, (64,), "float32")
        question = Question(profile, Cluster([Node("a", flops_per_s=1e9)]), BATCH, memory=memory)
        policy = Chain(("edge", "cloud"), BATCH)
        found = parts(policy, profile.table["output_bytes"].to_numpy())
        for tier, size in zip(("edge", "cloud"), profile.frozen_bytes, strict=True):
            assert (needed_bytes(question, 0, found[tier]) > 4 * 64 * 512) is (size > 0)

    @pytest.mark.parametrize("cut", range(1, 6))
    def test_estimates_are_near_plans_of_the_parts_themselves(self, cut: int) -> None:
        """Of convolutions in a row; too much for a last layer alone, of hardly any outputs."""

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
        question = Question(profile, node, samples, memory=memory)
        ends = torch.nn.Sequential(*blocks[:cut]), torch.nn.Sequential(*blocks[cut:])
        between = tuple(ends[0](torch.zeros(1, *shape)).shape[1:])
        policy = Chain(("edge",) * cut + ("cloud",) * (len(blocks) - cut), samples)
        found = parts(policy, profile.table["output_bytes"].to_numpy())
        for tier, end, into in zip(("edge", "cloud"), ends, (shape, between), strict=True):
            itself = memory_of(end, into, "float32")
            assert itself is not None
            low, high = 0.8, 1.6 if tier == "cloud" and cut == len(blocks) - 1 else 1.2
            assert low < needed_bytes(question, 0, found[tier]) / itself(samples) < high

    def test_less_memory_than_a_part_needs_takes_seconds_or_does_not_fit(self) -> None:
        model = "resnet18"
        profile, memory = profile_model(model), of(model)
        whole = memory(BATCH)
        rates = {}
        for share in (None, 0.86, 0.3):
            room = None if share is None else share * whole
            nodes = [
                Node("device", flops_per_s=1e9, samples=100),
                Node("edge", flops_per_s=1e12, memory_bytes=room),
                Node("cloud", flops_per_s=1e12, memory_bytes=room),
            ]
            question = Question(profile, full_mesh(nodes, Link(1e9)), BATCH, memory=memory)
            option = WAYS["all_edge"].find(question)
            rates[share] = option.use.samples_per_s
            assert option.memory is not None
            (held,) = option.memory.values()
            assert held.fits is {None: None, 0.86: True, 0.3: False}[share]
            if share == 0.86:
                again = memory.within(BATCH, share * whole)
                assert again is not None
                times = question.layer_times(1, again=False)
                more_s = again.forward * times.forward_s + again.backward * times.backward_s
                assert held.recomputation_s == pytest.approx(more_s)
        slower_s = BATCH / rates[0.86] - BATCH / rates[None]
        assert slower_s == pytest.approx(more_s)
        assert rates[0.3] == rates[None]


class TestTurns:
    def test_without_weights_to_hand_over_turns_take_the_mean_by_samples(self) -> None:
        nodes = boards(100, 300)
        servers = [Node("edge", flops_per_s=1e11), Node("cloud", flops_per_s=1e10)]
        mesh = full_mesh([*nodes, *servers], LINK)
        links = dict(mesh.links)
        links[1, 2] = links[2, 1] = links[1, 3] = links[3, 1] = Link(1e6)
        rates = []
        for holders in ((0, 1), (0,), (1,)):
            kept = tuple(
                replace(node, samples=node.samples if at in holders else 0)
                for at, node in enumerate(mesh.nodes)
            )
            question = Question(PROFILE, replace(mesh, nodes=kept, links=links), BATCH)
            option = WAYS["all_edge"].find(question)
            assert question.share(option.learns_from) == 1
            rates.append(option.use.samples_per_s)
        both, first, second = rates
        assert 1 / both == pytest.approx(0.25 / first + 0.75 / second)

    @pytest.mark.parametrize(
        ("samples", "switches"), [((100, 100), 1.0), ((900, 100), 0.2), ((100, 100, 100), 1.0)]
    )
    def test_next_device_gets_the_weights_before_its_turn(
        self, samples: tuple[int, ...], switches: float
    ) -> None:
        """Samples are large and the network is slow: each trains alone and hands over all weights.

        Of ten turns, one is of the device with a tenth of the samples, and one follows it.
        """
        network = Link(1e4, overhead_s=0.5)
        edges = [Node(name, flops_per_s=1e5) for name in ("edge", "cloud")]
        question = asked([*boards(*samples), *edges], network)
        option = WAYS["hiertrain"].find(question)
        handed_s = 0.5 + 8 * question.model_bytes / 1e4
        expected_s = question.batch_s(0) + switches * handed_s
        assert option.use.iteration_s == pytest.approx(expected_s)
        assert option.simulate().iteration_s == pytest.approx(expected_s)
        assert f"hand over up to {bytes_as_text(question.model_bytes)}" in "; ".join(option.assumes)

    def test_layers_that_cost_more_to_hand_over_than_they_save_are_not_on_devices(self) -> None:
        """Alone a device would train by itself; two have the edge train, to which samples go."""
        servers = [Node(name, flops_per_s=1e10) for name in ("edge", "cloud")]
        alone, both = (
            WAYS["hiertrain"].find(asked([*boards(*samples), *servers], Link(1e7)))
            for samples in ((100,), (100, 100))
        )
        assert both.learns_from == [0, 1]
        assert both.simulate().samples_per_s == pytest.approx(both.use.samples_per_s, rel=0.01)
        assert 0 in alone.batches
        assert not {0, 1} & both.batches.keys()
        assert both.use.samples_per_s < alone.use.samples_per_s

    @given(first=policies(), then=policies(), data=st.data())
    @settings(max_examples=60, deadline=None)
    def test_every_layer_of_a_turn_is_as_the_last_iteration_left_it(
        self, first: Policy, then: Policy, data: st.DataObject
    ) -> None:
        question = asked([*boards(50, 50), *(Node(n, flops_per_s=1e9) for n in "xyz")])
        turns = {}
        for device, policy in enumerate((first, then)):
            edge, cloud, _ = data.draw(st.permutations([2, 3, 4]))
            nodes = (device, edge, cloud)
            turns[device] = Turn(nodes, problem_of(question, nodes), policy, {})
        taken = Turns(question, turns, {0: 0, 1: 1})
        oracle.check_versions(taken, [0, 1, 1, 0])
        assert sum(taken.successions.values()) == pytest.approx(1)
        taken.dry_run((0, 1)).use()  # ends: nobody waits for what is not sent

    @given(samples=st.lists(st.integers(1, 5000), min_size=1, max_size=6))
    @settings(max_examples=30, deadline=None)
    def test_turns_are_in_proportion_to_samples(self, samples: list[int]) -> None:
        shares = successions(tuple(samples))
        for place, own in enumerate(samples):
            before, after = (
                sum(share for pair, share in shares.items() if pair[side] == place)
                for side in (0, 1)
            )
            assert after == pytest.approx(own / sum(samples))
            assert before == pytest.approx(after, abs=2e-3)


FAR = Link(1e7, latency_s=0.5)


@pytest.mark.parametrize("way", ["all_cloud", "hiertrain"])
@pytest.mark.parametrize(
    ("there", "back", "about"),
    [
        (FAR, FAR, {}),
        (LINK, FAR, {}),
        (LINK, replace(LINK, overhead_s=0.5), {}),
        (LINK, replace(LINK, bandwidth_bps=1e6), {}),
        (LINK, LINK, {"uplink_bps": 1e7}),
    ],
    ids=["far", "far back", "overhead back", "narrow back", "interface"],
)
def test_devices_on_other_links_take_their_own_seconds(
    way: str, there: Link, back: Link, about: dict[str, float]
) -> None:
    near, other = boards(100, 100)
    servers = [Node("edge", flops_per_s=1e11), Node("cloud", flops_per_s=1e12)]
    cluster = full_mesh([near, replace(other, **about), *servers], LINK)  # type: ignore[arg-type]
    links = dict(cluster.links) | {(1, 2): there, (1, 3): there, (2, 1): back, (3, 1): back}
    option = WAYS[way].find(Question(PROFILE, replace(cluster, links=links), BATCH))
    assert option.simulate().iteration_s == pytest.approx(option.use.iteration_s)


class TestEdgeAndCloud:
    def assumes(self, *nodes: Node) -> str:
        return "; ".join(WAYS["hiertrain"].find(asked(nodes)).assumes)

    def test_nodes_without_samples_come_first_however_slow(self) -> None:
        slow = [Node(name, flops_per_s=1e6) for name in ("x", "y")]
        option = WAYS["all_edge"].find(asked([*boards(10, 10, 10), *slow]))
        assert set(option.batches) <= {3, 4}

    def test_holder_that_is_edge_or_cloud_is_an_assumption(self) -> None:
        edge = Node("edge", flops_per_s=1e11)
        assert "since only edge holds none" in self.assumes(*boards(10, 10), edge)
        assert "since all nodes hold some" in self.assumes(*boards(10, 10, 10))
        assert "edge or cloud of others" not in self.assumes(
            *boards(10, 10), edge, Node("cloud", flops_per_s=1e12)
        )

    def test_only_node_without_samples_is_edge_or_cloud_of_all(self) -> None:
        nodes = [*boards(10, 10, 10), Node("edge", flops_per_s=1e6)]
        assert re.search("(edge|cloud) = edge", WAYS["all_edge"].find(asked(nodes)).where)

    def test_tier_that_has_the_memory_is_preferred_to_a_faster_one(self) -> None:
        servers = [
            Node("small", flops_per_s=1e12, memory_bytes=1e3),
            *(Node(f"s{at}", flops_per_s=1e11, memory_bytes=1e3) for at in range(3)),
            Node("large", flops_per_s=1e10, memory_bytes=1e9),
        ]
        option = WAYS["all_edge"].find(asked([*boards(10), *servers]))
        assert list(option.batches) == [5]
        assert option.memory is not None
        assert option.memory[5].fits is True


def test_devices_that_are_alike_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = []
    plan = PLANNERS["all_edge"]

    def counted(problem: Problem) -> Policy:
        planned.append(problem)
        return plan(problem)

    monkeypatch.setitem(PLANNERS, "all_edge", counted)
    servers = [Node("edge", flops_per_s=1e11), Node("cloud", flops_per_s=1e12)]
    question = Question(PROFILE, star(boards(*[10] * 8), servers, LINK), BATCH)
    option = WAYS["all_edge"].find(question)
    assert len(planned) == 2
    sent = [option.use.link_bytes[at, edge] for at in range(8) for edge in option.batches]
    assert np.allclose(sent, sent[0])
