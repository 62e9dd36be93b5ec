"""By which evidence a claim is judged, what an unanswered one waits for, and why one is missed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.conftest import Smoke
from tests.reproduction.scorecard.helpers import FIG1, Toy, by_name, order, recording
from workbench.reproduction import systems
from workbench.reproduction.claims import Answer, Cause, claims_of
from workbench.reproduction.figure import Figure, JointClaims
from workbench.reproduction.notebook import Results
from workbench.reproduction.scorecard import fitted_on, of_frames, of_results, verdicts
from workbench.utils.checks import UnknownNameError

MOST_WORDS = 27  # of a reason: 12 of the rule's, 15 of an answer's
AGAIN = "run `workbench reproduce toy`"


def test_stored_results_are_judged(toy: Toy) -> None:
    toy.store(fig1=FIG1, fig2=pl.DataFrame({"a": [1]}))
    card = toy.card()
    assert {name: (row.verdict, row.reason) for name, row in by_name(card).items()} == {
        "fig1.best": ("trend", "10 points below (near: 4), the ordering holds"),  # above second
        "fig1.second": ("near", ""),
        "fig2.speedup": ("not reproduced", "the search for a plan found none"),
        "fig2.order": ("holds", "from fig1"),
        "fig3.accuracy": ("not run", "needs the training runtime"),
        "table1.speed": ("input", "as measured"),
    }
    assert by_name(card)["fig1.best"].evidence == "this run, smoke scale"
    assert card.notes == ()


def test_figures_have_the_verdicts_of_their_claims_and_of_those_they_answer_jointly(
    toy: Toy,
) -> None:
    fig1, fig2 = toy.figures["fig1"], toy.figures["fig2"]
    toy.together = JointClaims((fig1, fig2), {"toy.fig3.accuracy": lambda *_: Answer(0.25)})
    results = Results("toy", scale="smoke")
    results.keep("fig1", FIG1)
    results.keep("fig2", pl.DataFrame({"a": [1]}))
    rows = of_frames("toy", results.frames, scale="smoke").rows
    card = {row.name: row.verdict for row in rows}
    alone = verdicts(results, fig1)
    assert [row.name for row in alone.rows] == ["fig1.best", "fig1.second", "fig2.order"]
    both = verdicts(results, fig1, fig2)
    assert {row.name: row.verdict for row in both.rows} == {
        name: card[name] for name in card if name != "table1.speed"
    }
    text = alone._repr_markdown_()
    assert "| reduction of best | 40\u00a0% | 30 | trend |" in text
    assert "fig2.order: true, ours true: holds" in repr(alone)


def test_siblings_are_passed_to_the_rule(toy: Toy) -> None:
    card = toy.judge({"fig1": FIG1.with_columns(reduction=pl.Series([30.0, 32.0]))})
    assert by_name(card)["fig1.best"].verdict == "not reproduced"


def test_roles_are_by_check_and_calibration(toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "calibration").mkdir()
    calibration = tmp_path / "calibration" / "toy.toml"
    calibration.write_text('fitted_on = ["toy.fig1.second"]\n')
    roles = {name: row.role for name, row in by_name(toy.judge({})).items()}
    assert roles.pop("fig1.second") == "fit"
    assert roles.pop("table1.speed") == "input"
    assert set(roles.values()) == {"predicted"}
    calibration.write_text('fitted_on = ["toy.a.oen"]\n')
    with pytest.raises(UnknownNameError, match=r"claim in toy\.toml 'toy\.a\.oen'.*toy\.a\.one"):
        fitted_on("toy", ["toy.a.one"])


def test_a_figure_on_a_claim_that_does_not_exist_is_refused(toy: Toy) -> None:
    toy.change("fig1", causes={"toy.fig9": Cause("data", "none")})
    with pytest.raises(UnknownNameError, match=r"unknown claim 'toy\.fig9'"):
        toy.judge({})


class TestEvidence:
    @pytest.mark.parametrize(
        ("scale", "ours", "weaker"), [("paper", 39.0, 30.0), ("default", 30.0, 39.0)]
    )
    def test_this_run_is_weaker_than_a_recording_at_paper_scale_alone(
        self, toy: Toy, record: Callable[..., None], scale: str, ours: float, weaker: float
    ) -> None:
        record(recording("fig1", FIG1.with_columns(reduction=pl.Series([39.0, 20])), scale=scale))
        best = by_name(toy.judge({"fig1": FIG1}, scale="smoke"))["fig1.best"]
        names = {30.0: "this run, smoke scale", 39.0: f"recorded at {scale}, 3 seeds, mnist"}
        assert (best.answer.ours, best.evidence) == (ours, names[ours])
        assert (best.weaker, best.weaker_evidence) == (weaker, names[weaker])

    def test_a_claim_that_a_small_recording_alone_answers_is_judged_by_it(
        self, toy: Toy, record: Callable[..., None]
    ) -> None:
        record(recording("fig1", scale="default", seeds=(1,)))
        best = by_name(toy.judge({}))["fig1.best"]
        assert (best.verdict, best.evidence) == ("trend", "recorded at default, 1 seed, mnist")

    @pytest.mark.parametrize(
        ("other", "is_comparable"),
        [
            ({}, True),
            ({"scale": "smoke"}, False),
            ({"data": "digits"}, False),
            ({"seeds": (1, 2)}, False),
        ],
    )
    def test_recordings_of_the_same_scale_data_and_seeds_answer_together(
        self, toy: Toy, record: Callable[..., None], other: dict[str, Any], is_comparable: bool
    ) -> None:
        toy.change("fig1", answers={"toy.fig2.order": lambda _: None})
        both = tuple(toy.figures.values())
        toy.together = JointClaims(both, {"toy.fig2.order": lambda *_: Answer(True)})
        toy.figures["fig3"] = Figure(
            id="fig3",
            of=both,
            compute=lambda *frames: pl.concat(frames),
            answers={"toy.fig3.accuracy": lambda of_both: Answer(float(of_both.height))},
        )
        record(recording("fig1") | recording("fig2", **other))
        answered = {name for name, row in by_name(toy.judge({})).items() if row.evidence}
        assert answered >= {"fig1.best", "fig1.second"}
        assert ("fig2.order" in answered) is is_comparable
        assert ("fig3.accuracy" in answered) is is_comparable

    @pytest.mark.parametrize("scale", ["smoke", "default", "paper"])
    def test_a_training_below_the_papers_size_decides_nothing(self, toy: Toy, scale: str) -> None:
        toy.change("fig1", needs_paper_size=True)
        best = by_name(toy.judge({"fig1": FIG1}, scale=scale))["fig1.best"]
        if scale == "paper":
            assert (best.verdict, best.weaker_evidence) == ("trend", "")
        else:
            assert (best.verdict, best.evidence, best.weaker) == ("not run", "", 30.0)
            assert best.reason == "needs scale paper: `workbench record toy fig1`"

    def test_recordings_of_no_commit_and_damaged_ones_judge_nothing(
        self, toy: Toy, record: Callable[..., None]
    ) -> None:
        record(recording("fig1", dirty=True), fig2="fig2.parquet is missing")
        card = toy.judge({})
        assert {row.evidence for row in card.rows} == {""}
        damaged, untraceable = card.notes
        assert damaged == "toy fig2: fig2.parquet is missing"
        assert untraceable.startswith("toy fig1: ")
        assert "answers no claim" in untraceable

    def test_what_another_run_timed_is_the_same_on_every_machine(
        self, toy: Toy, record: Callable[..., None]
    ) -> None:
        toy.change("fig1", answers={"toy.fig2.order": partial(order, timed=True)})
        here = by_name(toy.judge({"fig1": FIG1}))["fig2.order"]
        record(recording("fig1"))
        elsewhere = by_name(toy.judge({}))["fig2.order"]
        assert (here.answer.timed, elsewhere.answer.timed) == (True, False)


class TestUnanswered:
    def test_each_claim_waits_for_its_own_rows(self, toy: Toy) -> None:
        toy.change("fig1", answers={"toy.fig1.second": lambda _: None})
        reasons = {name: row.reason for name, row in by_name(toy.judge({"fig1": FIG1})).items()}
        assert reasons["fig1.second"] == f"this run has no rows of fig1 that answer it: {AGAIN}"
        assert reasons["fig2.speedup"] == f"this run has no rows of fig2: {AGAIN}"
        assert reasons["fig3.accuracy"] == "needs the training runtime"
        toy.change("fig1", at_paper=lambda frame: frame.head(0))
        best = by_name(toy.judge({"fig1": FIG1}))["fig1.best"]
        assert best.reason == f"this run has no rows of fig1 at the paper's setting: {AGAIN}"

    def test_without_results_the_command_is_named(self, toy: Toy) -> None:
        rows = by_name(toy.card())
        assert rows["fig1.best"].verdict == "not run"
        assert rows["fig1.best"].reason == f"no stored results: {AGAIN}"

    @pytest.mark.parametrize(
        "damage",
        [
            lambda path: path.write_bytes(path.read_bytes()[:-9]),
            FIG1.head(0).write_parquet,
            lambda path: path.unlink(),
        ],
        ids=["cut", "another frame", "missing"],
    )
    def test_a_damaged_file_is_named_by_its_claims_and_the_rest_is_judged(
        self, toy: Toy, damage: Callable[[Path], object]
    ) -> None:
        toy.store(fig1=FIG1, fig2=pl.DataFrame({"a": [1]}))
        path = toy.results / "09_toy" / "fig1.parquet"
        damage(path)
        rows = by_name(toy.card())
        assert rows["fig1.best"].verdict == "not run"
        assert (
            rows["fig1.best"].reason
            == f"{path} is missing or no longer what the run wrote: {AGAIN}"
        )
        assert rows["fig2.speedup"].verdict == "not reproduced"


class TestAnswersThatFail:
    """A fault of an answer is never taken for rows that are missing."""

    @pytest.mark.parametrize(
        "error", [KeyError, IndexError, ValueError, NameError, pl.exceptions.ColumnNotFoundError]
    )
    def test_errors_are_raised_on_rows_of_this_code(self, toy: Toy, error: type[Exception]) -> None:
        def typo(_: pl.DataFrame) -> Answer:
            raise error("secnod")

        toy.change("fig1", answers={"toy.fig1.best": typo})
        with pytest.raises(error, match="secnod"):
            toy.judge({"fig1": FIG1})

    @pytest.mark.parametrize(
        ("find", "error"),
        [
            (lambda rows: dict.fromkeys(rows.columns, 40.0)["second"], "KeyError: 'second'"),
            (lambda rows: rows.filter(planner="third")["reduction"][0], "IndexError: "),
            (lambda rows: max(rows.filter(planner="third")["reduction"].to_list()), "ValueError: "),
            (lambda rows: rows["saved"].item(), "ColumnNotFoundError: "),
        ],
        ids=["key", "index", "empty", "column"],
    )
    @pytest.mark.parametrize("is_recorded", [False, True])
    def test_rows_of_other_code_make_it_a_claims_own_reason_and_a_note(
        self,
        toy: Toy,
        record: Callable[..., None],
        find: Callable[[pl.DataFrame], float],
        error: str,
        is_recorded: bool,
    ) -> None:
        toy.change("fig1", answers={"toy.fig1.best": lambda rows: Answer(find(rows))})
        if is_recorded:
            record(recording("fig1"))
        else:
            toy.store("of another commit", fig1=FIG1)
        card = toy.card()
        assert by_name(card)["fig1.best"].verdict == "not run"
        assert by_name(card)["fig1.second"].verdict == "near"
        assert error in card.notes[0]
        assert card.notes[0].startswith(
            "toy.fig1.best: its answer failed on rows that other code made"
        )
        if not is_recorded:
            assert error in by_name(card)["fig1.best"].reason
            assert "failed" not in by_name(card)["fig2.speedup"].reason

    def test_a_programming_error_is_raised_on_rows_of_other_code_too(self, toy: Toy) -> None:
        def typo(_: pl.DataFrame) -> Answer:
            raise NameError("secnod")

        toy.change("fig1", answers={"toy.fig1.best": typo})
        toy.store("of another commit", fig1=FIG1)
        with pytest.raises(NameError, match="secnod"):
            toy.card()


PAPER, OURS = Cause("paper", "10 is not 20"), Cause("ours", "rounding")
UNKNOWN = "not explained yet"


@pytest.mark.parametrize(
    ("answer", "known", "cause", "why"),
    [
        (Answer(30), None, "ours", UNKNOWN),
        (Answer(30), PAPER, "paper", "10 is not 20"),
        (Answer(40), PAPER, "", ""),  # met: there is nothing to explain
        (Answer.over_seeds([30, 34.5, 39]), None, "noise", "± 2.6 over 3 seeds"),
        (Answer.over_seeds([30, 34.5, 39]), OURS, "noise", "± 2.6 over 3 seeds; rounding"),
        (Answer.over_seeds([30, 34.5, 39]), PAPER, "paper", "10 is not 20"),
        (Answer.over_seeds([31, 32, 33]), OURS, "ours", "rounding"),  # ± 0.6 does not reach 36
        (Answer.over_seeds([28, 37]), None, "ours", UNKNOWN),  # ± 4.5, but of two seeds
        (Answer.over_seeds([28, 37]), OURS, "ours", "rounding"),
        (Answer(32, spread=4), None, "ours", UNKNOWN),  # of no seeds
        (Answer.over_seeds([30]), None, "ours", f"{UNKNOWN} (provisional: one seed)"),
        (Answer.over_seeds([30]), PAPER, "paper", "10 is not 20"),
    ],
)
def test_noise_takes_three_seeds_and_replaces_no_known_cause_but_ours(
    toy: Toy, answer: Answer, known: Cause | None, cause: str, why: str
) -> None:
    toy.change("fig1", answers={"toy.fig1.best": lambda _: answer})
    toy.change("fig1", causes={"toy.fig1.best": known} if known else {})
    best = by_name(toy.judge({"fig1": FIG1}))["fig1.best"]
    assert (best.cause.kind, best.cause.why) == (cause, why) if best.cause else not cause


@pytest.mark.parametrize("system", systems.TITLES)
def test_every_claim_of_a_system_has_an_answer(system: str, smoke: Smoke) -> None:
    card = of_results(smoke.results, system)
    assert card.notes == ()  # all recordings suit the answers
    for row in card.rows:
        assert "this run" not in row.reason, row.claim.id
        assert "failed" not in row.reason, row.claim.id
        assert len(row.reason.split()) <= MOST_WORDS, row.claim.id


@pytest.mark.parametrize("system", systems.TITLES)
def test_systems_explain_claims_that_exist_and_can_record_what_is_learnt(system: str) -> None:
    sources = systems.judged(system)
    assert {claim for source in sources for claim in source.causes} <= set(claims_of(system))
    assert all(cause.why for source in sources for cause in source.causes.values())
    figures = [source for source in sources if isinstance(source, Figure)]
    large = (base for figure in figures if figure.needs_paper_size for base in figure.bases)
    assert all(base.recorded for base in large)
    assert len({figure.id for figure in figures}) == len(figures)
