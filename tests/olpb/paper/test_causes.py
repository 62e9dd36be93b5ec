"""Why claims are missed, and what is to be known of those that are met: each number is derived."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest

from workbench.olpb.algorithms.schedules import ALGORITHMS, schedule
from workbench.olpb.costs.backward import MOVES
from workbench.olpb.paper import calibration, constants
from workbench.olpb.paper.figures import FIGURES
from workbench.olpb.paper.graphs import OPTIMISER
from workbench.olpb.paper.scan_times import FIG9, FIG10, FIG11, FIG12
from workbench.olpb.paper.table2 import stated_table2
from workbench.olpb.paper.testbed import (
    DELAY_FACTOR,
    DELAY_FACTORS,
    NODES,
    Constants,
    Testbed,
    stated_fig11_ms,
    variant,
)
from workbench.reproduction.claims import MET, MISSES, accepted, claims_of, paper_value, verdicts
from workbench.reproduction.figure import answers_of

CAUSES = {claim: cause for figure in FIGURES for claim, cause in figure.causes.items()}

METHODS = {"olpb": "olpb_l2", "bppsa": "bppsa"}
DELAYS = (0.0, *np.geomspace(1, 5_000, 25))


@cache
def frames() -> dict[str, pl.DataFrame]:
    return {one.id: one.frame("smoke") for one in (FIG9, FIG10, FIG11, FIG12, OPTIMISER)}


def numbers(claim: str) -> list[float]:
    """In the reason for a miss; those of a name apart."""
    text = CAUSES[claim].why.replace(",", "")
    return [float(one) for one in re.findall(r"(?<![.\w])\d+(?:\.\d+)?", text)]


def squeezenet_s(method: str, p: float, testbed: Testbed | None = None) -> float:
    return (
        replace(testbed or variant(), delay_factor=p).timing("squeezenet", METHODS[method]).seconds
    )


def test_every_miss_has_a_cause_and_every_cause_a_miss() -> None:
    found = answers_of(FIGURES, frames()).by_claim
    missed = {claim for claim, verdict in verdicts("olpb", found).items() if verdict in MISSES}
    assert missed == {claim for claim in CAUSES if "table2" not in claim}
    assert {claim for claim in CAUSES if "table2" in claim} == {
        claim for claim in claims_of("olpb") if claim.endswith("time_ratio")
    }


def test_growth_with_a_range_of_delays_that_is_not_told() -> None:
    _, first, last, _, assumed_last, share, usual = numbers("olpb.fig11.olpb")
    assert (first, assumed_last, usual) == (DELAY_FACTORS[0], DELAY_FACTORS[-1], DELAY_FACTOR)
    grown = squeezenet_s("olpb", last) / squeezenet_s("olpb", first)
    assert grown == pytest.approx(paper_value("olpb.fig11.olpb"), rel=0.02)
    without = squeezenet_s("olpb", 0) / squeezenet_s("olpb", usual)
    assert 100 * (1 - without) == pytest.approx(share, abs=0.05)


def test_growths_with_the_delay_that_cannot_both_be() -> None:
    olpb, bppsa, bppsa_more, olpb_more, ratio, layers, nodes, subtasks, last = (
        one for one in numbers("olpb.fig11.bppsa") if one != 9
    )
    assert [olpb, bppsa] == [paper_value(claim) for claim in FIG11.answers]
    assert [olpb_more, bppsa_more] == pytest.approx([olpb - 1, bppsa - 1])
    assert ratio == pytest.approx(bppsa_more / olpb_more, abs=0.005)
    assert (layers, nodes) == (paper_value("olpb.table1.squeezenet.layers"), NODES)
    assert last == DELAYS[-1]
    assert subtasks == len(variant().subtasks("squeezenet", "olpb_l2"))
    for scan in ALGORITHMS:
        sent = {
            len(schedule(scan, int(elements), int(nodes), exclusive=True).messages)
            for elements in (layers, subtasks)
        }
        assert len(sent) == 1


@pytest.mark.parametrize("in_step", [False, True])
@pytest.mark.parametrize("scan", ALGORITHMS)
@pytest.mark.parametrize("layers", ["layer", "matrix_layer"])
def test_delays_alone_cost_bppsa_no_more(layers: str, scan: str, in_step: bool) -> None:
    free = Testbed(Constants(1e12, 0.0, 0.0, 0.0), layers=layers, scan=scan, in_step=in_step)
    olpb_s, bppsa_s = (free.timing("squeezenet", one).seconds for one in METHODS.values())
    assert 0 < bppsa_s <= olpb_s * (1 + 1e-9)


@pytest.mark.parametrize("name", ["once", "numbers", "in_step"])
def test_no_constants_meet_both_growths_and_figure_9(name: str) -> None:
    explanation, fitted = calibration.EXPLANATIONS[name], Constants.load(name)
    random, met = np.random.default_rng(1), 0
    for _ in range(150):
        factors = np.exp(random.uniform(-1, 1, len(explanation.ranges)))
        values = {
            one: factor * getattr(fitted, one)
            for one, factor in zip(explanation.ranges, factors, strict=True)
        }
        testbed = explanation.testbed(Constants(**{**explanation.fixed, **values}))
        if explanation.missed(values):
            continue
        met += 1
        seconds = {
            one: np.array([squeezenet_s(one, p, testbed) for p in DELAYS]) for one in METHODS
        }
        below = seconds["olpb"] < seconds["bppsa"]
        near = below[None, :] & below[:, None]
        for one, found in seconds.items():
            low, high = accepted(claims_of("olpb")[f"olpb.fig11.{one}"])
            growth = found[None, :] / found[:, None]
            near &= (low <= growth) & (growth <= high)
        assert not near.any()
    assert met >= 10


def test_counts_of_the_graph() -> None:
    traced = frames()["optimiser"].row(0, named=True)
    stated = claims_of("olpb")
    for count in ("nodes", "edges"):
        before, _ = re.findall(r"\d+", stated[f"olpb.optimiser.{count}"].metric)
        assert f"{before} {count}" in CAUSES["olpb.optimiser.nodes"].why
        assert f"{traced[count]} {count}" in CAUSES["olpb.optimiser.nodes"].why


def test_execution_alone_in_the_papers_table() -> None:
    for model, stated in stated_table2().items():
        alone = stated.execution_s / stated.without_s
        why = CAUSES[f"olpb.table2.{model}.time_ratio"].why
        assert f"execution alone takes {alone:.2g} of the time" in why


def test_what_figures_9_to_12_rest_on_is_said_where_they_are() -> None:
    met: dict[str, dict[str, int]] = {}
    judged = constants.explanations().filter(pl.col("verdict").is_in(MET))
    for moves in MOVES:
        rows = judged.filter(explanation=moves)
        met[moves] = {role: len(rows.filter(role=role)) for role in ("fit", "predicted")}
    free = met.pop("once")
    counts = {role: {one[role] for one in met.values()} for role in free}
    assert all(max(found) < free[role] for role, found in counts.items())
    of = {"fit": len(calibration.FITTED), "predicted": len(calibration.PREDICTED)}
    fitted, predicted = (
        " to ".join(map(str, sorted(counts[role]))) + f" of {of[role]}" for role in of
    )
    found = answers_of(FIGURES, frames()).by_claim
    shown = [one.caveat for claim, one in found.items() if claim.startswith("olpb.fig")]
    assert len(shown) == sum(of.values())
    assert all(f"{fitted} fitted and {predicted} predicted" in one for one in shown)
    first_ms, last_ms = stated_fig11_ms()
    assert last_ms / first_ms == pytest.approx(paper_value("olpb.fig11.olpb"), rel=0.01)
    assert f"in the paper {first_ms:.0f} to {last_ms:.0f}" in found["olpb.fig11.olpb"].caveat
    for figure in (FIG9, FIG10, FIG11, FIG12):
        assert figure.chart is not None
        title = figure.chart(frames()[figure.id]).to_dict()["title"]
        assert "combining Jacobians costs nothing" in str(title)
