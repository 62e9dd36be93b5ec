"""Causes of misses: chance where seeds are apart, else what a system's answers say."""

from __future__ import annotations

import importlib

import pytest

from tests.claims.helpers import CLAIMS, FIG1, TOY_ANSWERS, Toy
from workbench import claims
from workbench.claims.answer import causes, learnt
from workbench.names import UnknownNameError

SYSTEMS = list(dict.fromkeys(one.system for one in CLAIMS))
CAUSED = """
from workbench.claims import Cause
CAUSES = {"toy.fig1": Cause("paper", "10 is not 20"), "toy.fig2.speedup": Cause("data", "no plan")}
"""


def best(toy: Toy, answer: str, more: str = "") -> claims.Row:
    source = TOY_ANSWERS.replace('("fig1", _reduction)', f'("fig1", {answer})')
    toy.answer_by(source + more)
    return claims.of_frames("toy", {"fig1": FIG1}, claims=toy.claims).rows[0]


@pytest.mark.parametrize(
    ("answer", "more", "cause", "why"),
    [
        ("_reduction", "", "ours", "not explained yet"),
        ("_reduction", CAUSED, "paper", "10 is not 20"),
        ("lambda name, _: Answer(40)", CAUSED, "", ""),  # met: there is nothing to explain
        ("lambda name, _: Answer.over_seeds([28, 37])", "", "noise", "± 4.5 over 2 seeds"),
        ("lambda name, _: Answer.over_seeds([31, 33])", "", "ours", "not explained yet"),
        ("lambda name, _: Answer(32, spread=4)", "", "noise", "± 4 over repeats"),
        (
            "lambda name, _: Answer.over_seeds([30])",
            "",
            "ours",
            "not explained yet (provisional: one seed)",
        ),
        ("lambda name, _: Answer.over_seeds([30])", CAUSED, "paper", "10 is not 20"),
    ],
)
def test_a_miss_has_a_cause(toy: Toy, answer: str, more: str, cause: str, why: str) -> None:
    row = best(toy, answer, more)
    assert (row.cause, row.cause_reason) == (cause, why)


def test_totals_count_causes(toy: Toy) -> None:
    toy.answer_by(TOY_ANSWERS + CAUSED)
    toy.store(fig1=FIG1, fig2=FIG1)
    found = toy.card().counts()
    assert {name: found[name] for name in claims.CAUSES} == {
        "paper": 1,
        "data": 1,
        "noise": 0,
        "ours": 0,
    }


@pytest.mark.parametrize("table", ["CAUSES = {'toy.fig9': None}", "LEARNT = ('toy.fig9',)"])
def test_a_mark_on_a_claim_that_does_not_exist_is_refused(toy: Toy, table: str) -> None:
    toy.answer_by(f"{TOY_ANSWERS}\n{table}\n")
    with pytest.raises(UnknownNameError, match=r"unknown claim 'toy\.fig9'"):
        toy.card()


@pytest.mark.parametrize("system", SYSTEMS)
def test_systems_mark_claims_that_exist_and_learn_what_can_be_recorded(system: str) -> None:
    own = claims.claims_of(system)
    assert all(cause.why for cause in causes(system, own).values())
    needed = {name for names in learnt(system, own).values() for name in names}
    offered = importlib.import_module(f"workbench.{system}.paper.experiments").RECORDED
    assert needed <= set(offered)
