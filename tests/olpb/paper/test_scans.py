"""Figures of scans: fitted on Fig. 9 alone, the rest predicted, each with an answer."""

import polars as pl
import pytest

from workbench.clusters import load_calibration
from workbench.olpb.paper import calibration, paying
from workbench.olpb.paper.scan_times import FIG9, FIG10, FIG11, FIG12, TABLE1
from workbench.olpb.paper.testbed import (
    EXPLANATION,
    METHODS,
    NODES,
    Constants,
    Testbed,
    paper_testbed,
    variant,
)
from workbench.reproduction.claims import MET, claims_of, verdicts
from workbench.reproduction.figure import answers_of

STORED = load_calibration("olpb")
FIGURES = (TABLE1, FIG9, FIG10, FIG11, FIG12)


@pytest.fixture(scope="module")
def frames() -> dict[str, pl.DataFrame]:
    return {one.id: one.frame("smoke") for one in FIGURES}


def test_constants_are_fitted_on_fig_9_alone() -> None:
    assert set(STORED["fitted_on"]) == set(calibration.FITTED)
    assert all(claim.startswith("olpb.fig9.") for claim in STORED["fitted_on"])
    assert STORED["explanation"] == EXPLANATION
    assert len(calibration.EXPLANATIONS[EXPLANATION].ranges) == 3


def test_the_file_is_what_the_constants_give() -> None:
    for name in (EXPLANATION, "each"):
        one, constants = calibration.EXPLANATIONS[name], Constants.load(name)
        judged = verdicts("olpb", calibration.answers_by(one, constants))
        met = {
            "fitted": sum(judged[claim] in MET for claim in calibration.FITTED),
            "predicted": sum(judged[claim] in MET for claim in calibration.PREDICTED),
        }
        assert STORED["claims_met"][name] == met
        for constant, (low, high) in STORED["intervals"][name].items():
            assert low <= getattr(constants, constant) <= high


def test_nothing_is_missed_within_the_intervals_and_more_beyond() -> None:
    one, constants = calibration.EXPLANATIONS[EXPLANATION], Constants.load()
    assert calibration.misfit(one, constants)[0] == 0
    slow = {"node_gflops": constants.node_gflops / 100}
    assert calibration.misfit(one, Constants(**{**vars(constants), **slow}))[0] > 0


def test_times_scale_with_their_unit() -> None:
    # Why Fig. 9 tells no unit of time: all constants and the delay twice as large, all twice.
    constants = Constants.load()
    doubled = Constants(
        constants.node_gflops / 2,
        2 * constants.operator_ms,
        2 * constants.dispatch_ms,
        2 * constants.number_ns,
    )
    for method in METHODS:
        one = Testbed(constants, delay_factor=20).backward_s("squeezenet", method)
        two = Testbed(doubled, delay_factor=40).backward_s("squeezenet", method)
        assert two == pytest.approx(2 * one)


def test_every_claim_has_an_answer(frames: dict[str, pl.DataFrame]) -> None:
    found = answers_of(FIGURES, frames).by_claim
    wanted = {
        claim
        for claim in claims_of("olpb")
        if claim.split(".")[1] in ("table1", "fig9", "fig10", "fig11", "fig12")
    }
    assert set(found) == wanted
    assert all(one.detail for one in found.values())


def test_explanations_are_judged_as_the_figures_are() -> None:
    # Explanations are timed by all methods; Fig. 12 shows scans alone.
    frames = {one.id: one.frame("default") for one in FIGURES[1:]}
    shown = answers_of(FIGURES, frames).by_claim
    weighed = calibration.answers_by(calibration.EXPLANATIONS[EXPLANATION], Constants.load())
    for claim in (*calibration.FITTED, *calibration.PREDICTED):
        assert weighed[claim].ours == pytest.approx(shown[claim].ours), claim


def test_other_settings_answer_nothing() -> None:
    assert FIG9.at_paper(FIG9.frame("smoke", nodes=8)).is_empty()
    assert FIG12.at_paper(FIG12.frame("smoke", batch_sizes=(10,))).is_empty()


def test_fig_9_is_of_the_slowest(frames: dict[str, pl.DataFrame]) -> None:
    frame = frames["fig9"]
    assert frame.group_by("model").agg(pl.col("percent").max())["percent"].to_list() == [100] * 4
    assert set(frame["method"]) == set(METHODS)
    assert set(frame["nodes"]) == {NODES}
    assert frame.filter(method="dpb")["steps"].null_count() == 4


def test_dpb_waits_for_a_message_of_as_many_milliseconds_as_the_delay_factor() -> None:
    at_once_s, later_s = (variant(delay_factor=p).backward_s("vgg16", "dpb") for p in (0.0, 30.0))
    assert later_s == pytest.approx(at_once_s + 0.030)


def test_the_scan_pays_by_arithmetic_for_chains_alone() -> None:
    frame = paying.PAYS.frame("smoke")
    found = paying.first_paying(frame).filter(counting="arithmetic")
    pays = found.filter(pl.col("bare_nodes").is_not_null())
    assert set(pays["network"]) == {"rnn"}
    # A run costs H + 1 products with a gradient for each step: of the nodes asked for, 32.
    assert pays["bare_nodes"].to_list() == [32]
    assert pays["nodes"].item() < 32  # one node has to dispatch every step, too
    cnn = frame.filter(network="lenet5", counting="arithmetic")
    assert cnn["work_ratio"].min() > 10  # type: ignore[operator]


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="delay_factor"):
        variant(delay_factor=-1.0)
    with pytest.raises(ValueError, match="scan"):
        variant(scan="kogge_stone")
    with pytest.raises(ValueError, match="method"):
        paper_testbed().subtasks("vgg16", "adam")
