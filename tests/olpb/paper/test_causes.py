"""Why claims are missed: every miss has a cause, and what a cause says holds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import polars as pl
import pytest

from workbench.olpb.costs.backward import as_paper_counts, plan_batches
from workbench.olpb.costs.library import library_graph
from workbench.olpb.costs.subtasks import Subtask
from workbench.olpb.costs.timing import scan_timing
from workbench.olpb.paper.figures import FIGURES
from workbench.olpb.paper.graphs import OPTIMISER
from workbench.olpb.paper.networks import TABLE1
from workbench.olpb.paper.scan_times import FIG9, FIG10, FIG11, FIG12, RESTS_ON
from workbench.olpb.paper.table2 import SIDES, stated
from workbench.olpb.paper.testbed import CURVES, DELAY_FACTORS, variant
from workbench.reproduction.claims import MISSES, claims_of, paper_value, verdicts
from workbench.reproduction.figure import answers_of

CAUSES = {claim: cause for figure in FIGURES for claim, cause in figure.causes.items()}


@cache
def frames() -> dict[str, pl.DataFrame]:
    figures = (TABLE1, FIG9, FIG10, FIG11, FIG12, OPTIMISER)
    return {figure.id: figure.frame("smoke") for figure in figures}


def test_every_miss_has_a_cause_and_every_cause_a_miss() -> None:
    found = answers_of(FIGURES, frames()).by_claim
    missed = {claim for claim, verdict in verdicts("olpb", found).items() if verdict in MISSES}
    assert missed == {claim for claim in CAUSES if "table2" not in claim}
    seconds = ("time_ratio", "time_saved", "_s")
    timed = {claim for claim in claims_of("olpb") if claim.endswith(seconds)}
    assert timed == {claim for claim in CAUSES if claim.endswith(seconds)}


def test_a_reading_with_nodes_that_wait_is_what_its_cause_says() -> None:
    # Nodes that wait for each other take the seconds of each batch one after the other.
    testbed = variant(delay_factor=0.0)

    def waiting_s(curve: str) -> float:
        groups = testbed.subtasks("squeezenet", curve)[1:]
        batches = range(0, len(groups), testbed.nodes)
        costs = [group.backward_flops for group in groups]
        flops = sum(max(costs[at : at + testbed.nodes]) for at in batches)
        return flops / testbed.pool().nodes[0].flops_per_s

    assert waiting_s("olpb_l2") > waiting_s("olpb_l3")
    assert testbed.timing("squeezenet", "olpb_l2").seconds < waiting_s("olpb_l2")


def test_normalisations_without_their_input_come_to_table_1() -> None:
    graph = library_graph("inception_v3")
    assert abs(len(graph.nodes) - paper_value("olpb.table1.inception_v3.nodes")) < 5


def test_two_levels_of_squeezenet_take_a_second_batch_and_three_do_not() -> None:
    testbed = variant()
    elements = {
        curve: testbed.scan_work("squeezenet", curve)[0].elements
        for curve in ("olpb_l2", "olpb_l3")
    }
    assert elements["olpb_l3"] <= testbed.nodes < elements["olpb_l2"]


def test_on_64_nodes_bppsa_has_few_moves_more() -> None:
    rows = (
        frames()["fig10"].filter(model="squeezenet").pivot("nodes", index="method", values="steps")
    )
    moves = {method: (few, many) for method, few, many in rows.select("method", "32", "64").rows()}
    assert moves["bppsa"] == (13, 8)
    assert (moves["olpb_l2"][1], moves["olpb_l3"][1]) == (6, 5)
    found = answers_of(FIGURES, {"fig10": frames()["fig10"].filter(pl.col("nodes") <= 32)})
    assert found.by_claim["olpb.fig10.order"].ours is True


def test_vgg16_computes_for_most_of_the_time() -> None:
    one = frames()["fig11"].filter(model="vgg16").sort("delay_factor")
    for _, curve in one.group_by("method"):
        assert curve["backward_s"][-1] < 1.2 * curve["backward_s"][0]


def seconds_without(light: Sequence[str], model: str, curve: str, **options: Any) -> float:
    """Seconds of a backward pass in which some operators take no time but their arithmetic."""
    testbed, (method, levels) = variant(**options), CURVES[curve]
    graph = library_graph(model)
    by_layer = method == "bppsa"
    group = pl.col("layer" if by_layer else "level") - 1
    operators = pl.col("kind") == "operator"
    rows = (
        graph.nodes.drop_nulls("layer")
        .group_by(group=group // (1 if by_layer else levels))
        .agg(
            pl.col("backward_flops").sum(),
            timed=(operators & ~pl.col("name").is_in(light)).sum(),
        )
        .sort("group", descending=True)
    )
    own_flops = 1e6 * testbed.constants.operator_ms * testbed.constants.node_gflops
    groups = [
        Subtask((), flops + own_flops * timed, 0, 0)
        for flops, timed in rows.select("backward_flops", "timed").rows()
    ]
    planned = plan_batches(len(groups), testbed.nodes, testbed.scan)
    work = as_paper_counts(planned, groups, local_first=True)
    return scan_timing(planned, work, testbed.pool(), random=True).seconds


@pytest.mark.parametrize("curve", ["olpb_l2", "olpb_l3", "bppsa"])
def test_operators_that_all_take_their_time_are_the_testbeds(curve: str) -> None:
    assert seconds_without((), "squeezenet", curve) == pytest.approx(
        variant().timing("squeezenet", curve).seconds
    )


def test_where_additions_are_light_olpb_is_below_bppsa_on_64_nodes() -> None:
    two, three, bppsa = (
        seconds_without(("add",), "squeezenet", curve, nodes=64)
        for curve in ("olpb_l2", "olpb_l3", "bppsa")
    )
    assert max(two, three) < bppsa


def test_where_sums_and_reshapes_are_light_vgg16_rises_least_with_olpb() -> None:
    def growth(curve: str) -> float:
        light = ("add", "sub", "sum", "reshape")
        few, many = (
            seconds_without(light, "vgg16", curve, delay_factor=factor)
            for factor in (DELAY_FACTORS[0], DELAY_FACTORS[-1])
        )
        return many / few

    assert max(growth("olpb_l2"), growth("olpb_l3")) < growth("bppsa")


@pytest.mark.parametrize("model", SIDES)
def test_the_papers_own_execution_takes_less_time_with_its_places(model: str) -> None:
    assert stated(model, "execution_s") < stated(model, "without_s")


def test_what_figures_9_to_12_rest_on_is_said_where_they_are() -> None:
    found = answers_of(FIGURES, frames()).by_claim
    shown = [answer.caveat for claim, answer in found.items() if claim.startswith("olpb.fig")]
    assert set(shown) == {RESTS_ON}
    for figure in (FIG9, FIG10, FIG11, FIG12):
        assert figure.chart is not None
        title = figure.chart(frames()[figure.id]).to_dict()["title"]
        assert "combining Jacobians costs nothing" in str(title)
