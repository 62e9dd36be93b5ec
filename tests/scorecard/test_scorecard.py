"""The scorecard of a toy system and of those that are built, and why claims are missed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from tests.claims.helpers import TABLE
from tests.conftest import Smoke
from tests.scorecard.helpers import FIG1, Toy, order, verdicts
from workbench import systems
from workbench.claims import CAUSES, Answer, Cause, claims_of
from workbench.experiments.figure import Figure
from workbench.scorecard import ROLES, Row, fitted_on, of_results, render
from workbench.utils.checks import UnknownNameError

LINE_WORDS = 27  # of a reason: 12 of the rule's, 15 of an answer's


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
        said = "toy: not run yet (5 claims)\n  To run it: workbench reproduce toy\n"
        assert render(card).startswith(said)
        toy.store(fig1=FIG1)
        assert "claims are met" in render(toy.card()).splitlines()[0]

    def test_says_what_its_answers_leave_out(self, toy: Toy) -> None:
        toy.store(fig1=FIG1)
        card = toy.card()
        assert card.unanswered == ("toy.fig2.speedup",)
        assert verdicts(card)["toy.fig2.speedup"] == "not run"
        said = "The stored results do not answer toy.fig2.speedup; the line of each says why.\n"
        assert said in render(card)

    def test_says_that_results_are_of_another_version_and_answers_the_rest(self, toy: Toy) -> None:
        toy.store(fig1=FIG1.rename({"reduction": "saving"}), fig2=pl.DataFrame({"a": [1]}))
        card = toy.card()
        found = verdicts(card)
        assert (found["toy.fig1.best"], found["toy.fig2.order"]) == ("not run", "not run")
        assert found["toy.fig2.speedup"] == "not reproduced"
        reason = card.rows[0].reason
        assert "are of another version" in reason
        assert "reduction" not in {row.id: row.reason for row in card.rows}["toy.fig3.accuracy"]
        assert "reduction" in reason
        assert "workbench reproduce toy --force" in reason

    @pytest.mark.parametrize(
        "damage",
        [
            pytest.param(lambda path: path.write_bytes(b""), id="empty"),
            pytest.param(lambda path: path.write_bytes(path.read_bytes()[:-9]), id="cut"),
            pytest.param(lambda path: path.write_bytes(bytes(500)), id="zeros"),
            pytest.param(lambda path: path.write_text("not a frame"), id="text"),
            pytest.param(lambda path: FIG1.head(0).write_parquet(path), id="without rows"),
            pytest.param(TABLE.write_parquet, id="another frame"),
            pytest.param(lambda path: path.unlink(), id="missing"),
        ],
    )
    def test_names_a_damaged_file_and_answers_the_rest(
        self, toy: Toy, damage: Callable[[Path], object]
    ) -> None:
        toy.store(fig1=FIG1, fig2=pl.DataFrame({"a": [1]}))
        path = toy.results / "09_toy" / "fig1.parquet"
        damage(path)
        card = toy.card()
        found = {row.id: (row.verdict, row.reason) for row in card.rows}
        assert found["toy.fig1.best"] == (
            "not run",
            f"{path} is missing or no longer what the run wrote: run `workbench reproduce toy`",
        )
        assert found["toy.fig2.speedup"] == ("not reproduced", "the search for a plan found none")
        assert (card.missing, card.unanswered) == ({}, ())
        assert card.scales == {"toy": "smoke"}

    def test_names_all_files_where_nothing_can_be_read(self, toy: Toy) -> None:
        toy.store(fig1=FIG1, fig2=FIG1)
        paths = sorted((toy.results / "09_toy").glob("*.parquet"))
        for path in paths:
            path.write_bytes(b"PAR1")
        card = toy.card()
        assert f"{paths[0]}, {paths[1]} are missing or no longer" in card.rows[0].reason
        assert card.missing == {}
        assert "09_toy/fig1.parquet" in "".join(render(card).split())

    def test_refuses_an_unknown_system(self, toy: Toy) -> None:
        with pytest.raises(UnknownNameError, match=r"unknown system 'tow'. Did you mean 'toy'"):
            toy.card("tow")

    def test_judges_a_claim_once_by_what_was_recorded_at_the_papers_size(self, toy: Toy) -> None:
        earlier = {"fig1": FIG1.with_columns(reduction=pl.Series([39.0, 10.0]))}
        card = toy.judge({"fig1": FIG1}, scale="default", recorded=earlier)
        rows = {row.name: row for row in card.rows}
        best, second = rows["fig1.best"], rows["fig1.second"]
        assert (best.verdict, best.ours, best.evidence) == ("near", 39.0, "recorded")
        assert (best.beside, best.beside_evidence) == (30.0, "this run, default scale")
        assert (second.verdict, second.beside) == ("trend", 21.0)  # near by this run
        assert card.counts()["near"] == 1
        assert rows["fig2.speedup"].beside_evidence == ""
        assert "| beside |" in render(card, "markdown")
        assert "beside" not in render(toy.card(), "markdown")

    @pytest.mark.parametrize(
        ("scale", "judged"), [("smoke", False), ("default", False), ("paper", True)]
    )
    def test_a_training_below_the_papers_size_decides_nothing(
        self, toy: Toy, scale: str, judged: bool
    ) -> None:
        toy.change("fig1", needs_paper_size=True)
        card = toy.judge({"fig1": FIG1}, scale=scale)
        best = card.rows[0]
        assert card.scales == {"toy": scale}
        if judged:
            assert (best.verdict, best.ours, best.beside) == ("trend", 30.0, None)
        else:
            assert (best.verdict, best.ours, best.beside) == ("not run", None, 30.0)
            assert best.reason == "needs scale paper: `workbench record toy fig1`"
            assert best.beside_evidence == f"this run, {scale} scale"

    def test_what_is_timed_elsewhere_is_the_same_on_every_machine(self, toy: Toy) -> None:
        toy.change("fig1", answers={"toy.fig2.order": partial(order, timed=True)})
        here, there = (
            toy.judge(run, recorded=recorded).rows[3]
            for run, recorded in (({"fig1": FIG1}, {}), ({}, {"fig1": FIG1}))
        )
        assert (here.timed, there.timed) == (True, False)

    def test_a_caveat_is_printed_where_the_claim_is_met(self, toy: Toy) -> None:
        toy.change("fig1", answers={"toy.fig2.order": partial(order, caveat="of one seed")})
        toy.store(fig1=FIG1)
        assert "but: of one seed" in render(toy.card())
        assert "of one seed" in render(toy.card(), "markdown")

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
        by_role = [card.counts(role=role) for role in ROLES]
        assert [one["all"] for one in by_role] == [1, 4, 1]
        assert by_role[1]["trend"] == 1
        assert [name for name, _ in card.totals()] == [*ROLES, "all"]

    @pytest.mark.usefixtures("toy")
    def test_calibration_on_a_claim_that_does_not_exist_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "calibration").mkdir()
        (tmp_path / "calibration" / "toy.toml").write_text('fitted_on = ["toy.a.oen"]\n')
        with pytest.raises(
            UnknownNameError, match=r"claim in toy\.toml 'toy\.a\.oen'.*toy\.a\.one"
        ):
            fitted_on("toy", ["toy.a.one"])


@pytest.mark.parametrize("system", systems.SYSTEMS)
def test_every_claim_of_a_built_system_has_an_answer(system: str, smoke: Smoke) -> None:
    card = of_results(smoke.results, system)
    assert card.missing == {}
    assert card.unanswered == ()
    assert card.scales == {system: "smoke"}
    stale = [row.id for row in card.rows if "the stored results" in row.reason]
    assert stale == []
    long = [row.reason for row in card.rows if len(row.reason.split()) > LINE_WORDS]
    assert long == []


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
        (Answer.over_seeds([28, 37]), None, "ours", "not explained yet"),  # ± 4.5, of two alone
        (Answer.over_seeds([28, 37]), PAPER, "paper", "10 is not 20"),
        (Answer.over_seeds([30, 34.5, 39]), None, "noise", "± 2.6 over 3 seeds"),
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


def test_a_missing_column_is_the_reason_of_its_own_claim_alone(toy: Toy) -> None:
    toy.change("fig1", answers={"toy.fig1.best": lambda frame: Answer(frame["gone"].item())})
    toy.store(fig1=FIG1)
    reasons = {row.id: (row.verdict, row.reason) for row in toy.card().rows}
    assert reasons["toy.fig1.best"][0] == "not run"
    assert '"gone" not found' in reasons["toy.fig1.best"][1]
    assert reasons["toy.fig1.second"][0] == "near"
    assert "gone" not in reasons["toy.fig2.speedup"][1]


@pytest.mark.parametrize("error", [KeyError, NameError, AttributeError, TypeError, IndexError])
def test_a_fault_of_an_answer_is_no_unanswered_claim(toy: Toy, error: type[Exception]) -> None:
    def typo(_: pl.DataFrame) -> Answer:
        raise error("secnod")

    toy.change("fig1", answers={"toy.fig1.best": typo})
    toy.store(fig1=FIG1)
    with pytest.raises(error, match="secnod"):
        toy.card()


@pytest.mark.parametrize(
    ("find", "why"),
    [
        (lambda rows: dict.fromkeys(rows.columns, 40.0)["second"], "'second'"),
        (lambda rows: rows.filter(planner="third")["reduction"][0], "index 0 is out of bounds"),
        (lambda rows: max(rows.filter(planner="third")["reduction"].to_list()), "empty sequence"),
        (lambda rows: rows.filter(planner="third")["reduction"].item(), "can only call"),
    ],
    ids=["key", "index", "most", "item"],
)
def test_rows_that_another_commit_did_not_make_are_a_claim_s_own_reason(
    toy: Toy, find: Callable[[pl.DataFrame], float], why: str
) -> None:
    toy.change("fig1", answers={"toy.fig1.best": lambda rows: Answer(find(rows))})
    toy.store({"scale": "smoke"}, "of another commit", fig1=FIG1, fig2=FIG1)
    reasons = {row.id: (row.verdict, row.reason) for row in toy.card().rows}
    verdict, reason = reasons["toy.fig1.best"]
    assert verdict == "not run"
    assert reason.startswith("the stored results are of another version (rows are missing: ")
    assert why in reason
    assert reason.endswith("): run `workbench reproduce toy --force`")
    assert "of another version" not in reasons["toy.fig2.speedup"][1]


@pytest.mark.parametrize("error", [NameError, AttributeError, TypeError])
def test_a_fault_of_an_answer_surfaces_though_another_commit_made_the_rows(
    toy: Toy, error: type[Exception]
) -> None:
    def typo(_: pl.DataFrame) -> Answer:
        raise error("secnod")

    toy.change("fig1", answers={"toy.fig1.best": typo})
    toy.store({"scale": "smoke"}, "of another commit", fig1=FIG1)
    with pytest.raises(error, match="secnod"):
        toy.card()


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
    assert all(base.recorded for one in figures if one.needs_paper_size for base in one.bases)
    assert len({one.id for one in figures}) == len(figures)
