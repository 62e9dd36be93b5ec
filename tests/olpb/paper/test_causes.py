"""Why claims are missed: every miss has a cause, and what a cause says holds."""

from __future__ import annotations

from functools import cache

import polars as pl
import pytest

from workbench.olpb.costs.library import NORMALISATION, library_graph
from workbench.olpb.paper.figures import FIGURES
from workbench.olpb.paper.graphs import OPTIMISER
from workbench.olpb.paper.networks import TABLE1
from workbench.olpb.paper.scan_times import FIG9, FIG10, FIG11, FIG12, RESTS_ON
from workbench.olpb.paper.table2 import SIDES, stated
from workbench.olpb.paper.testbed import variant
from workbench.reproduction.claims import MISSES, claims_of, paper_value, tolerance, verdicts
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


def test_a_normalisation_of_six_nodes_is_table_1s_and_of_seven_is_near() -> None:
    graph = library_graph("inception_v3")
    layers = graph.nodes.drop_nulls("layer").group_by("layer").agg("name")
    of_layer = pl.all_horizontal(pl.col("name").list.contains(name) for name in NORMALISATION)
    normalisations = layers.filter(of_layer).height
    table_1 = paper_value("olpb.table1.inception_v3.nodes")
    assert abs(len(graph.nodes) - table_1) < 5
    with_seven = len(graph.nodes) + normalisations
    assert normalisations / 2 < with_seven - table_1 <= tolerance("count", table_1)


def test_two_levels_of_squeezenet_take_a_second_batch_and_three_do_not() -> None:
    testbed = variant()
    elements = {
        curve: testbed.scan_work("squeezenet", curve)[0].elements
        for curve in ("olpb_l2", "olpb_l3")
    }
    assert elements["olpb_l3"] <= testbed.nodes < elements["olpb_l2"]


def test_on_64_nodes_bppsa_has_few_moves_more_and_shorter_ones() -> None:
    rows = (
        frames()["fig10"].filter(model="squeezenet").pivot("nodes", index="method", values="steps")
    )
    moves = {method: (few, many) for method, few, many in rows.select("method", "32", "64").rows()}
    assert moves["bppsa"] == (13, 8)
    assert (moves["olpb_l2"][1], moves["olpb_l3"][1]) == (6, 5)
    testbed = variant(nodes=64)
    longest = {
        curve: max(group.backward_flops for group in testbed.subtasks("squeezenet", curve)[1:])
        for curve in ("bppsa", "olpb_l2", "olpb_l3")
    }
    assert longest["bppsa"] < longest["olpb_l2"] < longest["olpb_l3"]
    found = answers_of(FIGURES, {"fig10": frames()["fig10"].filter(pl.col("nodes") <= 32)})
    assert found.by_claim["olpb.fig10.order"].ours is True


def test_vgg16_computes_for_most_of_the_time() -> None:
    one = frames()["fig11"].filter(model="vgg16").sort("delay_factor")
    for _, curve in one.group_by("method"):
        assert curve["backward_s"][-1] < 1.2 * curve["backward_s"][0]
    moves = dict(one.select("method", "steps").unique().iter_rows())
    assert (moves["olpb_l2"], moves["bppsa"]) == (5, 9)


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
