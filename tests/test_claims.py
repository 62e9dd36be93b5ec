"""The rule by cases worked out by hand, the table of claims, and the scorecard of a toy system."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import workbench
from tests.conftest import Smoke
from workbench import claims
from workbench.claims import Answer, Claim, Scorecard, fitted_on, load_claims, render, scorecard
from workbench.names import UnknownNameError
from workbench.results import MANIFEST, Manifest, Results

TABLE = load_claims()
CLAIMS = [Claim(**record) for record in TABLE.iter_rows(named=True)]
BUILT = [system for system in dict.fromkeys(TABLE["system"]) if claims.built(system)]


def claim(value: str, unit: str = "percent", check: str = "near", id: str = "toy.a.one") -> Claim:
    return Claim(id, "toy", "Fig. 1", "", "a metric", unit, value, check)


class TestTheTableOfClaims:
    def test_holds_every_system_and_only_valid_rows(self) -> None:
        assert TABLE.columns == list(claims.COLUMNS)
        assert TABLE.height == 193
        assert set(TABLE["system"]) == {"dynacomm", "hiertrain", "edgegossip", "dlion", "olpb"}

    @pytest.mark.parametrize("one", CLAIMS, ids=lambda one: one.id)
    def test_the_papers_own_result_satisfies_each_claim(self, one: Claim) -> None:
        ours: float | bool = True
        if one.check == "range":
            ours = sum(one.bounds) / 2
        elif one.check != "order":
            ours = float(one.value)
        judged, reason = claims.verdict(one, ours)
        assert judged == {"near": "near", "input": "input"}.get(one.check, "holds")
        assert reason == ""

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            (
                "toy.b,toy,,,,percent,1,nearly,",
                "line 3: unknown check 'nearly'. Did you mean 'near'",
            ),
            (
                "toy.b,toy,,,,percent,about 1,near,",
                "line 3: toy.b: the check 'near' needs a number",
            ),
            ("toy.b,toy,,,,percent,,near,", "line 3: toy.b: the check 'near' needs a number"),
            ("toy.b,toy,,,,percent,nan,input,", "line 3: toy.b: the check 'input' needs a number"),
            ("toy.b,toy,,,,x,1.5,range,", "line 3: toy.b: a range is LOW-HIGH, not '1.5'"),
            ("toy.b,toy,,,,x,2-1.5,range,", "line 3: toy.b: the range 2-1.5 runs from high to low"),
            ("other.b,toy,,,,x,1,near,", "line 3: the id 'other.b' does not begin with its system"),
            ("toy.a,toy,,,,percent,1,near,", "line 3: 'toy.a' stands in line 2 already"),
        ],
    )
    def test_refuses_a_wrong_row_by_its_line(self, row: str, message: str, tmp_path: Path) -> None:
        path = tmp_path / "claims.csv"
        path.write_text(f"{','.join(claims.COLUMNS)}\ntoy.a,toy,,,,percent,1,near,\n{row}\n")
        with pytest.raises(ValueError, match=message) as error:
            load_claims(path)
        assert str(error.value).startswith("claims.csv, ")

    def test_refuses_a_missing_column(self, tmp_path: Path) -> None:
        path = tmp_path / "claims.csv"
        path.write_text("id,system,value\n")
        with pytest.raises(ValueError, match=r"claims\.csv lacks the columns source, setting"):
            load_claims(path)


class TestNear:
    @pytest.mark.parametrize(
        ("unit", "paper", "inside", "outside"),
        [
            ("percent", "42.86", 38.574, 38.5),  # 10 % is 4.286
            ("percent", "20", 23.0, 23.01),  # 3 points are more than 10 %
            ("percent", "0", -3.0, -3.01),
            ("percent", "-21", -24.0, -24.01),
            ("percentage points", "0", 3.0, 3.01),
            ("x", "7.2", 8.28, 8.29),  # 15 % is 1.08
            ("samples", "24", 30.0, 30.01),  # 25 % is 6
            ("count", "313", 344.3, 344.4),  # 10 % is 31.3
            ("exponent", "3", 2.7, 2.69),
            ("ms", "0.084", 0.0924, 0.0925),
        ],
    )
    def test_ends_where_the_rule_says(
        self, unit: str, paper: str, inside: float, outside: float
    ) -> None:
        assert claims.verdict(claim(paper, unit), inside) == ("near", "")
        assert claims.verdict(claim(paper, unit), outside)[0] != "near"

    @given(
        paper=st.floats(-1e6, 1e6),
        unit=st.sampled_from([*claims.TOLERANCES, "count", "ms", "exponent"]),
    )
    def test_the_papers_own_value_is_always_near(self, paper: float, unit: str) -> None:
        assert claims.verdict(claim(repr(paper), unit), paper)[0] == "near"

    @given(
        paper=st.floats(-1e3, 1e3),
        unit=st.sampled_from([*claims.TOLERANCES, "count"]),
        gap=st.floats(0, 1e3),
        share=st.floats(0, 1),
        side=st.sampled_from([-1, 1]),
    )
    def test_coming_closer_never_leaves_it(
        self, paper: float, unit: str, gap: float, share: float, side: int
    ) -> None:
        far, close = paper + side * gap, paper + side * gap * share
        assume(claims.verdict(claim(repr(paper), unit), far)[0] == "near")
        assert claims.verdict(claim(repr(paper), unit), close)[0] == "near"

    @given(paper=st.floats(-1e3, 1e3), ours=st.floats(-1e3, 1e3), one=st.sampled_from(CLAIMS))
    def test_does_not_ask_which_claim_it_judges(
        self, paper: float, ours: float, one: Claim
    ) -> None:
        named = Claim(one.id, one.system, "", "", "", "percent", repr(paper), "near")
        assert claims.verdict(named, ours) == claims.verdict(claim(repr(paper)), ours)


class TestOrdering:
    @pytest.mark.parametrize(
        ("unit", "paper", "ours", "expected"),
        [
            ("percent", "40", 1.0, "trend"),
            ("percent", "40", 0.0, "not reproduced"),  # the same as nothing is not a reduction
            ("percent", "40", -1.0, "not reproduced"),
            ("percent", "-21", -1.0, "trend"),
            ("percent", "-21", 1.0, "not reproduced"),
            ("percent", "0", 4.0, "not reproduced"),  # the paper's ordering is equality
            ("x", "7.2", 1.1, "trend"),
            ("x", "7.2", 1.0, "not reproduced"),
            ("x", "7.2", 0.9, "not reproduced"),
            ("samples", "24", 40.0, "not reproduced"),  # nothing to be ordered by
            ("exponent", "3", 2.0, "not reproduced"),
        ],
    )
    def test_a_miss_is_a_trend_on_the_papers_side_of_no_difference(
        self, unit: str, paper: str, ours: float, expected: str
    ) -> None:
        judged, reason = claims.verdict(claim(paper, unit), ours)
        assert judged == expected
        assert reason

    def test_a_miss_must_stand_to_its_siblings_as_in_the_paper(self) -> None:
        best, second = claim("40"), claim("24", id="toy.a.two")
        assert claims.verdict(best, 30.0, [(second, 29.0)])[0] == "trend"
        judged, reason = claims.verdict(best, 30.0, [(second, 31.0)])
        assert judged == "not reproduced"
        assert reason == "10 points below the paper's, near is 4; the paper has it above two"
        assert claims.verdict(best, 30.0, [(second, 30.0)])[0] == "not reproduced"

    def test_siblings_that_tie_in_the_paper_do_not_count(self) -> None:
        one, other = claim("40"), claim("36.5", id="toy.a.two")  # 3.5 apart, near is 4
        assert claims.verdict(one, 30.0, [(other, 31.0)])[0] == "trend"

    def test_siblings_alone_order_a_unit_without_reference(self) -> None:
        one, other = claim("65", "count"), claim("153", "count", id="toy.a.two")
        assert claims.verdict(one, 80.0, [(other, 200.0)])[0] == "trend"
        assert claims.verdict(one, 80.0, [(other, 70.0)])[0] == "not reproduced"

    def test_an_ordering_does_not_spoil_what_is_near(self) -> None:
        one, other = claim("40"), claim("30", id="toy.a.two")
        assert claims.verdict(one, 37.0, [(other, 39.0)])[0] == "near"

    def test_siblings_differ_in_the_last_part_only_and_share_unit_and_check(self) -> None:
        one = claim("40")
        others = [
            one,
            claim("1", id="toy.a.two"),
            claim("1", id="toy.a.three", unit="x"),
            claim("1", id="toy.a.four", check="at_most"),
            claim("1", id="toy.b.one"),
            claim("1", id="toy.a.one.more"),
        ]
        assert [other.id for other in claims.siblings(one, others)] == ["toy.a.two"]


class TestLiteralChecks:
    @pytest.mark.parametrize(
        ("value", "check", "ours", "expected"),
        [
            ("0.3", "at_most", 0.3, "holds"),
            ("0.3", "at_most", 0.2, "holds"),
            ("0.3", "at_most", 0.3001, "not reproduced"),
            ("2.72", "at_least", 2.72, "holds"),
            ("2.72", "at_least", 2.71, "not reproduced"),
            ("1.5-2", "range", 1.5, "holds"),
            ("1.5-2", "range", 2.0, "holds"),
            ("1.5-2", "range", 2.01, "not reproduced"),
            ("1.5-2", "range", 1.49, "not reproduced"),
            ("-2--1", "range", -1.5, "holds"),
            ("a<b", "order", True, "holds"),
            ("a<b", "order", False, "not reproduced"),
            ("4.5", "input", 99.0, "input"),
        ],
    )
    def test_are_literal(self, value: str, check: str, ours: float, expected: str) -> None:
        judged, reason = claims.verdict(claim(value, "x", check), ours)
        assert judged == expected
        assert bool(reason) == (expected == "not reproduced")

    def test_say_by_how_much_they_miss(self) -> None:
        assert claims.verdict(claim("0.3", "ms", "at_most"), 0.5)[1] == "0.2 ms above 0.3"
        assert claims.verdict(claim("1.5-2", "x", "range"), 1.25)[1] == "0.25 x below 1.5"

    def test_a_truth_value_is_no_number_nor_the_other_way_round(self) -> None:
        with pytest.raises(TypeError, match=r"toy\.a\.one: ours is True, .* 'near' is a number"):
            claims.verdict(claim("1"), True)
        with pytest.raises(TypeError, match=r"ours is 1\.0, .* 'order' is true or false"):
            claims.verdict(claim("a<b", "order", "order"), 1.0)


class TestAnswer:
    def test_takes_numpys_values_for_what_they_are(self) -> None:
        holds, number = Answer(np.bool_(True)), Answer(np.float64(1.5))  # type: ignore[arg-type]
        assert holds.ours is True
        assert type(number.ours) is float

    def test_refuses_what_says_nothing(self) -> None:
        with pytest.raises(ValueError, match="without a value says why"):
            Answer()
        with pytest.raises(ValueError, match="or did not run; not both"):
            Answer(1.0, not_run="needs the training runtime")
        with pytest.raises(ValueError, match="ours is nan"):
            Answer(float("nan"))


TOY_CLAIMS = """\
id,system,source,setting,metric,unit,value,check,note
toy.fig1.best,toy,Fig. 1,,reduction of best,percent,40,near,
toy.fig1.second,toy,Fig. 1,,reduction of second,percent,20,near,
toy.fig2.speedup,toy,Fig. 2,,speed-up,x,2,near,
toy.fig2.order,toy,Fig. 2,,best is faster than second,order,best<second,order,
toy.fig3.accuracy,toy,Fig. 3,,accuracy lost,percentage points,0.5,at_most,
toy.table1.speed,toy,Table I,,training speed,samples/s,4.5,input,as measured
unbuilt.fig1,unbuilt,Fig. 1,,reduction,percent,1,near,
"""
TOY_ANSWERS = """\
from workbench.claims import Answer

def answers(frames):
    found = {"toy.fig3.accuracy": Answer(not_run="needs the training runtime")}
    if "fig1" in frames:
        reduction = dict(frames["fig1"].select("planner", "reduction").iter_rows())
        found |= {f"toy.fig1.{name}": Answer(value) for name, value in reduction.items()}
        found["toy.fig2.order"] = Answer(reduction["best"] > reduction["second"], "from fig1")
    if "fig2" in frames:
        found["toy.fig2.speedup"] = Answer(detail="the search for a plan found none")
    return found
"""
FIG1 = pl.DataFrame({"planner": ["best", "second"], "reduction": [30.0, 21.0]})


class Toy:
    """A system that exists in a test only: its claims, its answers, what is stored of it."""

    def __init__(self, folder: Path) -> None:
        self.results = folder / "results"
        self.package = folder / "package" / "toy"
        self.package.mkdir(parents=True)
        (self.package / "__init__.py").touch()
        self.answer_by(TOY_ANSWERS)
        (folder / "claims.csv").write_text(TOY_CLAIMS)
        self.claims = load_claims(folder / "claims.csv")

    def answer_by(self, source: str) -> None:
        (self.package / "answers.py").write_text(source)
        sys.modules.pop("workbench.toy.answers", None)
        importlib.invalidate_caches()

    def store(self, **frames: pl.DataFrame) -> None:
        folder = self.results / "09_toy"
        kept = Results("toy", folder)
        for name, frame in frames.items():
            kept.keep(name, frame)
        manifest = Manifest(
            notebook="09_toy",
            system="toy",
            parameters={"scale": "smoke"},
            inputs={},
            made_at="2026-01-01T00:00:00Z",
            wall_s=1.0,
            revision=None,
            dirty=None,
            platform="",
            versions={},
            outputs={f"{name}.parquet": "" for name in frames},
        )
        (folder / MANIFEST).write_text(manifest.to_json())

    def card(self, system: str | None = None) -> Scorecard:
        return scorecard(self.results, system, self.claims)


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Toy]:
    made = Toy(tmp_path)
    monkeypatch.setattr(workbench, "__path__", [*workbench.__path__, str(tmp_path / "package")])
    monkeypatch.setattr(claims, "DATA", tmp_path)
    yield made
    for name in ("workbench.toy.answers", "workbench.toy"):
        sys.modules.pop(name, None)


def verdicts(card: Scorecard) -> dict[str, str]:
    return {row.id: row.verdict for row in card.rows}


class TestTheScorecard:
    def test_judges_stored_results(self, toy: Toy) -> None:
        toy.store(fig1=FIG1, fig2=pl.DataFrame({"a": [1]}))
        card = toy.card()
        assert verdicts(card) == {
            "toy.fig1.best": "trend",  # 10 points off, above 0 and above second
            "toy.fig1.second": "near",
            "toy.fig2.speedup": "not reproduced",
            "toy.fig2.order": "holds",
            "toy.fig3.accuracy": "not run",
            "toy.table1.speed": "input",
        }
        reasons = {row.id: row.reason for row in card.rows}
        assert reasons["toy.fig2.speedup"] == "the search for a plan found none"
        assert reasons["toy.fig2.order"] == "from fig1"
        assert reasons["toy.fig3.accuracy"] == "needs the training runtime"
        assert card.scales == {"toy": "smoke"}
        assert card.missing == {}
        assert card.unanswered == ()
        assert card.not_built == {"unbuilt": 1}

    def test_passes_siblings_to_the_rule(self, toy: Toy) -> None:
        toy.store(fig1=FIG1.with_columns(reduction=pl.Series([30.0, 32.0])))
        assert verdicts(toy.card())["toy.fig1.best"] == "not reproduced"

    def test_says_how_to_make_results_that_are_missing(self, toy: Toy) -> None:
        card = toy.card()
        found = {row.id: (row.verdict, row.reason) for row in card.rows}
        assert found["toy.fig1.best"] == (
            "not run",
            "no stored results: run `workbench reproduce toy`",
        )
        assert found["toy.fig3.accuracy"] == ("not run", "needs the training runtime")
        assert found["toy.table1.speed"][0] == "input"
        assert card.missing == {"toy": "workbench reproduce toy"}
        assert card.unanswered == ()
        assert "To make them: workbench reproduce toy" in render(card)

    def test_says_what_its_answers_leave_out(self, toy: Toy) -> None:
        toy.store(fig1=FIG1)
        card = toy.card()
        assert card.unanswered == ("toy.fig2.speedup",)
        assert verdicts(card)["toy.fig2.speedup"] == "not run"
        assert "without an answer" in render(card)
        assert "toy.fig2.speedup." in render(card)

    def test_says_that_results_are_of_another_version(self, toy: Toy) -> None:
        toy.store(fig1=FIG1.rename({"reduction": "saving"}))
        card = toy.card()
        assert all(row.verdict in ("not run", "input") for row in card.rows)
        reason = card.rows[0].reason
        assert "are of another version" in reason
        assert "reduction" in reason
        assert "workbench reproduce toy --force" in reason

    def test_refuses_an_answer_to_no_claim(self, toy: Toy) -> None:
        toy.answer_by(TOY_ANSWERS.replace("toy.fig3.accuracy", "toy.fig3.acuracy"))
        with pytest.raises(UnknownNameError, match=r"unknown claim .* mean 'toy\.fig3\.accuracy'"):
            toy.card()

    def test_refuses_an_unknown_system(self, toy: Toy) -> None:
        with pytest.raises(UnknownNameError, match=r"unknown system 'tow'. Did you mean 'toy'"):
            toy.card("tow")

    def test_shows_a_system_that_is_not_built_when_asked_for(self, toy: Toy) -> None:
        card = toy.card("unbuilt")
        assert [(row.verdict, row.reason) for row in card.rows] == [
            ("not run", "this system is not built yet")
        ]

    def test_judges_frames_that_a_notebook_holds(self, toy: Toy) -> None:
        card = claims.of_frames("toy", {"fig1": FIG1}, scale="paper", claims=toy.claims)
        assert verdicts(card)["toy.fig1.best"] == "trend"
        assert card.scales == {"toy": "paper"}

    def test_tells_roles_apart_and_averages_each(self, toy: Toy, tmp_path: Path) -> None:
        (tmp_path / "calibration").mkdir()
        (tmp_path / "calibration" / "toy.toml").write_text('fitted_on = ["toy.fig1.second"]\n')
        toy.store(fig1=FIG1)
        card = toy.card()
        roles = {row.id: row.role for row in card.rows}
        assert roles["toy.fig1.second"] == "fit"
        assert roles["toy.fig1.best"] == "predicted"
        assert roles["toy.table1.speed"] == "input"
        assert card.percent_errors("fit") == [1.0]
        assert card.percent_errors("predicted") == [10.0]
        assert "fit 1.00 points (n = 1), predicted 10.00 points (n = 1)" in render(card)
        assert [card.total(role) for role in claims.ROLES] == [1, 4, 1]
        assert card.total() == card.total("fit") + card.total("predicted") + card.total("input")
        assert card.total("predicted", "trend") == 1

    def test_calibration_on_a_claim_that_does_not_exist_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "toy.toml").write_text('fitted_on = ["toy.a.oen"]\n')
        with pytest.raises(
            UnknownNameError, match=r"claim in toy\.toml 'toy\.a\.oen'.*toy\.a\.one"
        ):
            fitted_on("toy", ["toy.a.one"], tmp_path)


class TestRendering:
    def test_the_table_fits_100_columns_in_a_pipe_and_names_every_claim(self, toy: Toy) -> None:
        toy.store(fig1=FIG1)
        for card in (
            toy.card(),
            *(scorecard(system=one, claims=TABLE) for one in dict.fromkeys(TABLE["system"])),
        ):
            text = render(card)
            assert "\x1b" not in text
            assert max(len(line) for line in text.splitlines()) <= 100
            for row in card.rows:
                assert f"  {row.id.removeprefix(f'{row.system}.')} " in text

    def test_a_row_reads_as_paper_ours_difference_verdict(self, toy: Toy) -> None:
        toy.store(fig1=FIG1)
        lines = [line.split() for line in render(toy.card()).splitlines()]
        assert ["fig1.best", "40", "%", "30", "-10", "trend"] in lines
        assert ["fig2.order", "true", "true", "holds"] in lines
        assert ["fig3.accuracy", "<=", "0.5", "pp", "-", "not", "run"] in lines
        assert ["all", "1", "1", "1", "0", "2", "1", "6"] in lines

    def test_json_is_a_list_of_objects(self, toy: Toy) -> None:
        toy.store(fig1=FIG1)
        found = json.loads(render(toy.card(), "json"))
        assert [one["id"] for one in found] == toy.claims["id"].to_list()[:6]
        assert found[0] | {"reason": ""} == {
            "id": "toy.fig1.best",
            "system": "toy",
            "source": "Fig. 1",
            "setting": "",
            "metric": "reduction of best",
            "unit": "percent",
            "check": "near",
            "role": "predicted",
            "paper": 40.0,
            "ours": 30.0,
            "difference": -10.0,
            "verdict": "trend",
            "reason": "",
        }
        order = found[3]
        assert (order["paper"], order["ours"], order["difference"]) == ("best<second", True, None)
        assert (found[4]["ours"], found[4]["difference"]) == (None, None)

    @pytest.mark.parametrize("system", dict.fromkeys(TABLE["system"]))
    def test_json_of_every_system_has_every_claim(self, system: str, tmp_path: Path) -> None:
        found = json.loads(render(scorecard(tmp_path, system), "json"))
        assert [one["id"] for one in found] == [one.id for one in CLAIMS if one.system == system]
        assert {one["verdict"] for one in found} <= set(claims.VERDICTS)
        assert {one["role"] for one in found} <= set(claims.ROLES)

    def test_markdown_has_a_table_row_for_each_claim(self, toy: Toy) -> None:
        toy.store(fig1=FIG1)
        card = toy.card()
        text = render(card, "markdown")
        assert text == card._repr_markdown_()
        tables = [line for line in text.splitlines() if line.startswith("|")]
        assert sum(line.startswith("| `toy.") for line in tables) == len(card.rows)
        assert "| `toy.fig1.best` | Fig.\u00a01 | 40\u00a0% | 30 | -10 | trend |" in text

    def test_the_frame_keeps_numbers_as_numbers(self, toy: Toy) -> None:
        toy.store(fig1=FIG1)
        frame = toy.card().frame
        assert frame.schema["ours"] == pl.Float64
        assert frame["ours"].to_list() == [30.0, 21.0, None, None, None, None]
        assert frame["paper"].to_list() == [40.0, 20.0, 2.0, None, 0.5, 4.5]

    def test_an_unknown_format_is_refused(self, toy: Toy) -> None:
        with pytest.raises(UnknownNameError, match=r"'jsno'. Did you mean 'json'"):
            render(toy.card(), "jsno")


@pytest.mark.parametrize("system", BUILT)
def test_every_claim_of_a_built_system_has_an_answer(system: str, smoke: Smoke) -> None:
    card = scorecard(smoke.results, system)
    assert card.missing == {}
    assert card.unanswered == ()
    assert card.scales == {system: "smoke"}
    stale = [row.id for row in card.rows if "the stored results" in row.reason]
    assert stale == []
