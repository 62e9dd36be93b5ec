"""Causes of misses: chance where seeds are apart, else what a system's answers say."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

from tests.scorecard.helpers import FIG1, Toy
from workbench import systems
from workbench.claims import CAUSES, Answer, Cause, claims_of
from workbench.experiments.figure import Figure
from workbench.scorecard import Row
from workbench.utils.checks import UnknownNameError

PAPER = Cause("paper", "10 is not 20")


def best(toy: Toy, answer: Callable[[pl.DataFrame], Answer], cause: Cause | None) -> Row:
    toy.change("fig1", answers={"toy.fig1.best": answer})
    toy.change("fig1", causes={} if cause is None else {"toy.fig1.best": cause})
    return toy.judge({"fig1": FIG1}).rows[0]


@pytest.mark.parametrize(
    ("answer", "known", "cause", "why"),
    [
        (Answer(30), None, "ours", "not explained yet"),
        (Answer(30), PAPER, "paper", "10 is not 20"),
        (Answer(40), PAPER, "", ""),  # met: there is nothing to explain
        (Answer.over_seeds([28, 37]), None, "noise", "± 4.5 over 2 seeds"),
        (Answer.over_seeds([31, 33]), None, "ours", "not explained yet"),
        (Answer(32, spread=4), None, "noise", "± 4 over repeats"),
        (Answer.over_seeds([30]), None, "ours", "not explained yet (provisional: one seed)"),
        (Answer.over_seeds([30]), PAPER, "paper", "10 is not 20"),
    ],
)
def test_a_miss_has_a_cause(
    toy: Toy, answer: Answer, known: Cause | None, cause: str, why: str
) -> None:
    row = best(toy, lambda _: answer, known)
    assert (row.cause, row.cause_reason) == (cause, why)


def test_totals_count_causes(toy: Toy) -> None:
    toy.change("fig1", causes={"toy.fig1.best": PAPER})
    toy.change("fig2", causes={"toy.fig2.speedup": Cause("data", "no plan")})
    toy.store(fig1=FIG1, fig2=FIG1)
    found = toy.card().counts()
    assert {name: found[name] for name in CAUSES} == {"paper": 1, "data": 1, "noise": 0, "ours": 0}


@pytest.mark.parametrize("field", ["causes", "answers"])
def test_a_figure_on_a_claim_that_does_not_exist_is_refused(toy: Toy, field: str) -> None:
    toy.change("fig1", **{field: {"toy.fig9": None}})
    with pytest.raises(UnknownNameError, match=r"unknown claim 'toy\.fig9'"):
        toy.card()


@pytest.mark.parametrize("system", systems.SYSTEMS)
def test_systems_explain_claims_that_exist_and_can_record_what_is_learnt(system: str) -> None:
    judged = systems.judged(system)
    assert {claim for one in judged for claim in one.causes} <= set(claims_of(system))
    assert all(cause.why for one in judged for cause in one.causes.values())
    figures = [one for one in judged if isinstance(one, Figure)]
    assert all(base.recorded for one in figures if one.learnt for base in one.bases)
    assert len({one.id for one in figures}) == len(figures)
