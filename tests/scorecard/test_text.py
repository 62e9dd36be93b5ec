"""The scorecard as text, in each of its formats."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.claims.helpers import CLAIMS, TABLE
from tests.scorecard.helpers import FIG1, Toy
from workbench.claims import MISSES, VERDICTS
from workbench.scorecard import ROLES, Scorecard, of_results, render
from workbench.utils.checks import UnknownNameError


def fits_and_names_all(card: Scorecard) -> None:
    text = render(card)
    assert "\x1b" not in text
    assert max(len(line) for line in text.splitlines()) <= 100
    run = {row.system for row in card.rows if row.evidence and row.verdict != "input"}
    for row in (row for row in card.rows if row.system in run):
        if row.verdict == "not run" and row.system in card.missing:
            assert f"not run: {row.reason}" in " ".join(text.split())
            continue
        assert f"  {row.id.removeprefix(f'{row.system}.')} " in text


class TestRendering:
    def test_the_table_fits_100_columns_in_a_pipe_and_names_every_claim(self, toy: Toy) -> None:
        toy.store(fig1=FIG1)
        fits_and_names_all(toy.card())

    @pytest.mark.parametrize("system", dict.fromkeys(TABLE["system"]))
    def test_the_table_of_every_system_fits_100_columns(self, system: str, tmp_path: Path) -> None:
        fits_and_names_all(of_results(tmp_path, system))

    def test_every_miss_is_followed_by_a_reason(self, tmp_path: Path) -> None:
        card = of_results(tmp_path, "dlion")
        lines = render(card).splitlines()
        for row in card.rows:
            if row.verdict in MISSES:
                name = f"  {row.id.removeprefix('dlion.')} "
                (place,) = (at for at, line in enumerate(lines) if line.startswith(name))
                assert lines[place + 1].startswith("      "), name

    def test_a_reason_is_said_once(self, toy: Toy) -> None:
        toy.store(fig9=FIG1)
        assert "      as above" in render(toy.card()).splitlines()

    def test_a_row_reads_as_paper_ours_verdict(self, toy: Toy) -> None:
        toy.store(fig1=FIG1)
        lines = [line.split() for line in render(toy.card()).splitlines()]
        assert ["fig1.best", "40", "%", "30", "trend"] in lines
        assert ["fig2.order", "true", "true", "holds"] in lines
        assert ["fig3.accuracy", "<=", "0.5", "pp", "-", "not", "run"] in lines
        assert ["all", "1", "1", "1", "0", "2", "1", "6", "0", "0", "0", "1"] in lines
        assert ["toy:", "2", "of", "5", "claims", "are", "met,", "2", "not", "run"] in lines

    @pytest.mark.parametrize(
        ("best", "second", "shown"),
        [
            (21.041, 21.044, ["21.041", "21.044"]),  # the order of siblings
            (43.0, 21.0, ["43", "21"]),
            (44.0004, 23.0004, ["44.0004", "23.0004"]),  # near: up to 44, up to 23
            (0.0004, 20.0, ["0.0004", "20"]),  # no difference is 0
            (30.0, 30.0, ["30", "30"]),
        ],
    )
    def test_ours_has_the_digits_that_its_verdict_follows_from(
        self, best: float, second: float, shown: list[str], toy: Toy
    ) -> None:
        toy.store(fig1=FIG1.with_columns(reduction=pl.Series([best, second])))
        assert [row.ours_text for row in toy.card().rows[:2]] == shown

    def test_json_is_a_list_of_objects(self, toy: Toy) -> None:
        toy.store(fig1=FIG1)
        found = json.loads(render(toy.card(), "json"))
        assert found == [{name: getattr(row, name) for name in found[0]} for row in toy.card().rows]
        assert list(found[0]) == [
            *("id", "system", "source", "setting", "metric", "unit", "check", "role", "paper"),
            *("ours", "difference", "verdict", "reason", "timed", "evidence"),
            *("beside", "beside_evidence", "cause", "cause_reason", "caveat"),
        ]
        numbers = [(one["paper"], one["ours"], one["difference"]) for one in found]
        wanted = [(40.0, 30.0, -10.0), ("best<second", True, None), (0.5, None, None)]
        assert [numbers[at] for at in (0, 3, 4)] == wanted
        evidence, cause = found[0]["evidence"], found[0]["cause_reason"]
        assert (evidence, cause) == ("this run, smoke scale", "not explained yet")

    @pytest.mark.parametrize("system", dict.fromkeys(TABLE["system"]))
    def test_json_of_every_system_has_every_claim(self, system: str, tmp_path: Path) -> None:
        text = render(of_results(tmp_path, system), "json")
        assert text.isascii()  # so that output of any encoding has all of it
        found = json.loads(text)
        assert [one["id"] for one in found] == [one.id for one in CLAIMS if one.system == system]
        assert {one["verdict"] for one in found} <= set(VERDICTS)
        assert {one["role"] for one in found} <= set(ROLES)

    def test_markdown_has_a_table_row_for_each_claim(self, toy: Toy) -> None:
        toy.store(fig1=FIG1)
        card = toy.card()
        text = render(card, "markdown")
        assert text == card._repr_markdown_()
        tables = [line for line in text.splitlines() if line.startswith("|")]
        assert sum(line.startswith("| `toy.") for line in tables) == len(card.rows)
        assert "| `toy.fig1.best` | Fig.\u00a01 | 40\u00a0% | 30 | trend | ours |" in text
        assert "| true | true | holds |  | this run, smoke scale | best is faster than" in text

    def test_the_frame_keeps_numbers_as_numbers(self, toy: Toy) -> None:
        toy.store(fig1=FIG1)
        frame = toy.card().frame
        assert frame.schema["ours"] == pl.Float64
        assert frame["ours"].to_list() == [30.0, 21.0, None, None, None, None]
        assert frame["paper"].to_list() == [40.0, 20.0, 2.0, None, 0.5, 4.5]
        assert frame["holds"].to_list() == [None, None, None, True, None, None]

    def test_an_unknown_format_is_refused(self, toy: Toy) -> None:
        with pytest.raises(UnknownNameError, match=r"'jsno'. Did you mean 'json'"):
            render(toy.card(), "jsno")
