"""The scorecard as text, in each of its formats."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from tests.reproduction.claims.helpers import CLAIMS
from tests.reproduction.scorecard.helpers import FIG1, Toy, order, recording
from workbench.reproduction.claims import MISSES, VERDICTS, Cause
from workbench.reproduction.scorecard import ROLES, of_results, render
from workbench.reproduction.scorecard.card import text_of
from workbench.utils.checks import UnknownNameError


def test_a_terminals_line_reads_as_paper_ours_verdict(toy: Toy) -> None:
    toy.store(fig1=FIG1)
    lines = [line.split() for line in render(toy.card()).splitlines()]
    assert lines[0] == ["toy:", "2", "of", "5", "claims", "are", "met,", "2", "not", "run"]
    assert ["fig1.best", "40", "%", "30", "trend"] in lines
    assert ["fig2.order", "true", "true", "holds"] in lines
    assert ["all", "1", "1", "1", "0", "2", "1", "6", "0", "0", "0", "1"] in lines


def test_claims_that_did_not_run_are_named_by_their_reason(toy: Toy) -> None:
    text = " ".join(render(toy.judge({})).split())
    nothing = "no stored results: run `workbench reproduce toy`"
    names = "fig1.best, fig1.second, fig2.speedup and 1 more"
    assert f"not run: {names}: {nothing}" in text
    assert "not run: fig3.accuracy: needs the training runtime" in text


@pytest.mark.parametrize("system", dict.fromkeys(claim.system for claim in CLAIMS))
def test_table_fits_100_columns_and_says_why_a_claim_is_missed(system: str, tmp_path: Path) -> None:
    card = of_results(tmp_path, system)
    lines = render(card).splitlines()
    assert max(map(len, lines)) <= 100
    for row in card.rows:
        if row.verdict in MISSES:
            (place,) = (at for at, line in enumerate(lines) if line.startswith(f"    {row.name} "))
            assert lines[place + 1].startswith("      "), row.name


def test_a_cause_is_told_once(toy: Toy) -> None:
    cause = Cause("data", "cannot be had")
    toy.change("fig1", causes={"toy.fig1.best": cause})
    toy.change("fig2", causes={"toy.fig2.speedup": cause})
    text = render(toy.judge({"fig1": FIG1, "fig2": FIG1}))
    assert text.count("cause data: cannot be had") == 1
    assert "cause data: as for fig1.best" in text


@pytest.mark.parametrize("format", ["table", "markdown"])
def test_weaker_evidence_and_caveats_are_shown_where_a_claim_is_met(
    toy: Toy, record: Callable[..., None], format: str
) -> None:
    toy.change("fig1", answers={"toy.fig2.order": partial(order, caveat="of one seed")})
    run = {"fig1": FIG1.with_columns(reduction=pl.Series([12.5, 21]))}
    assert "weaker" not in render(toy.judge(run), "markdown")
    record(recording("fig1"))
    text = render(toy.judge(run), format)
    assert "12.5" in text
    assert "of one seed" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((42.86, "42.9"), (0.0843, "0.0843"), (1097.3, "1,097"), (-21.0, "-21")),
        *((True, "true"), (None, "-")),
    ],
)
def test_numbers_have_three_significant_digits(value: float | None, text: str) -> None:
    assert text_of(value) == text


def test_mean_error_of_percent_claims_is_by_role(toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "calibration").mkdir()
    (tmp_path / "calibration" / "toy.toml").write_text('fitted_on = ["toy.fig1.second"]\n')
    text = render(toy.judge({"fig1": FIG1}))
    assert "fit 1 points (n = 1), predicted 10 points (n = 1)" in " ".join(text.split())


def test_json_is_a_list_of_objects(tmp_path: Path) -> None:
    text = render(of_results(tmp_path), "json")
    assert text.isascii()  # so that output of any encoding has all of it
    rows = json.loads(text)
    assert [row["id"] for row in rows] == [claim.id for claim in CLAIMS]
    assert {row["verdict"] for row in rows} <= set(VERDICTS)
    assert {row["role"] for row in rows} <= set(ROLES)
    assert list(rows[0]) == [
        *("id", "system", "source", "setting", "metric", "unit", "check", "role", "paper"),
        *("ours", "difference", "verdict", "reason", "timed", "evidence"),
        *("weaker", "weaker_evidence", "cause", "cause_reason", "caveat"),
    ]


def test_markdown_has_a_table_row_for_each_claim(toy: Toy) -> None:
    card = toy.judge({"fig1": FIG1}, scale="smoke")
    text = render(card, "markdown")
    assert text == card._repr_markdown_()
    assert sum(line.startswith("| `toy.") for line in text.splitlines()) == len(card.rows)
    assert "| `toy.fig1.best` | Fig.\u00a01 | 40\u00a0% | 30 | trend | ours |" in text
    assert "| true | true | holds |  | this run, smoke scale | best is faster than" in text


def test_frame_keeps_numbers_as_numbers(toy: Toy) -> None:
    frame = toy.judge({"fig1": FIG1}).frame
    assert frame["ours"].to_list() == [30.0, 21.0, None, None, None, None]
    assert frame["paper"].to_list() == [40.0, 20.0, 2.0, None, 0.5, 4.5]
    assert frame["holds"].to_list() == [None, None, None, True, None, None]


def test_an_unknown_format_is_refused(toy: Toy) -> None:
    with pytest.raises(UnknownNameError, match=r"'jsno'. Did you mean 'json'"):
        render(toy.judge({}), "jsno")
