"""Intervals of rates, and methods that are too close to call, in the table and in sentences."""

from __future__ import annotations

import polars as pl
import pytest

from tests.comparison.clusters import at_home, home
from workbench.comparison import METHODS, Problem, charts
from workbench.comparison.compare import Comparison, compared, lead
from workbench.comparison.intervals import (
    KINDS,
    errors_of,
    kinds_of,
    widest,
    with_intervals,
)
from workbench.comparison.methods import EQUAL
from workbench.comparison.table import SCHEMA
from workbench.comparison.text import close_letters
from workbench.profiles import LayerTimes, profile_model
from workbench.utils.checks import UserError


def intervals(frame: pl.DataFrame, *timed: str) -> pl.DataFrame:
    """Intervals of methods, of which those that are `timed` have measured layer times."""
    methods = {name: METHODS[name] for name in frame["method"]}
    kinds = {name: kinds_of(own, timed=name in timed) for name, own in methods.items()}
    return with_intervals(frame, kinds)


def rates(*of: tuple[str, str, float | None]) -> pl.DataFrame:
    """Methods with their system and rate, and what limits them."""
    frame = pl.DataFrame(of, schema=["method", "system", "samples_per_s"], orient="row")
    return frame.with_columns(limited_by=pl.lit("phone"), busy_share=0.5)


@pytest.fixture
def frame() -> pl.DataFrame:
    return at_home().frame


def test_an_interval_contains_its_rate_and_is_missing_where_that_is(frame: pl.DataFrame) -> None:
    usable = frame.filter(pl.col("reason").is_null())
    low, rate, high = (usable[f"{end}samples_per_s"] for end in ("low_", "", "high_"))
    assert ((low < rate) & (rate < high)).all()
    refused = frame.filter(pl.col("reason").is_not_null())
    assert refused["low_samples_per_s"].is_null().all()
    assert refused["too_close"].is_null().all()


def test_a_method_is_as_uncertain_as_all_of_its_kinds() -> None:
    frame = intervals(rates(("all-reduce", "all-reduce", 100.0)))
    parts = [errors_of(kind) for kind in ("averaging", "layers")]
    assert frame["low_samples_per_s"][0] == 100 / max(errors.high for errors in parts)
    assert frame["high_samples_per_s"][0] == 100 / min(errors.low for errors in parts)


def test_methods_that_split_the_model_have_the_errors_of_pipelines() -> None:
    split = {method.system for method in METHODS.values() if method.splits_model}
    assert split == {"pipeline", "HierTrain", "OLPB"}
    for method in METHODS.values():
        assert ("pipelines" in kinds_of(method)) == method.splits_model
    assert {kind for method in METHODS.values() for kind in kinds_of(method)} == {*KINDS}
    with pytest.raises(UserError, match="unknown kind 'layer'"):
        errors_of("layer")


def test_measured_layer_times_narrow_the_intervals() -> None:
    """Those of methods whose nodes all have measured times, and of no other."""
    profile, cluster = profile_model("lenet5"), home()
    times = {
        node.name: LayerTimes.from_flops(profile, flops_per_s=node.flops_per_s or 0, batch_size=32)
        for node in cluster.nodes
    }
    boards = {name: own for name, own in times.items() if name != "edge"}
    on_boards, on_edge = ("one node", "all-reduce"), "one node, samples sent once"
    methods = [METHODS[name] for name in (*on_boards, on_edge, "pipeline, gpipe")]
    widths = []
    for given in ({}, boards, times):
        found = compared(Problem(profile, cluster, times=given), methods).frame
        width = found["high_samples_per_s"] / found["low_samples_per_s"]
        widths.append(dict(zip(found["method"], width, strict=True)))
    without, some, whole = widths
    assert all(whole[method] < width for method, width in without.items())
    assert [some[name] for name in on_boards] == pytest.approx([whole[name] for name in on_boards])
    assert some[on_edge] == pytest.approx(without[on_edge])


def test_methods_within_the_wider_margin_are_too_close_to_call() -> None:
    margin = widest("averaging", "pipelines", "layers").margin
    assert margin == max(errors_of(kind).margin for kind in KINDS)
    inside, outside = 100 / (margin - 0.001), 100 / (margin + 0.001)
    frame = intervals(
        rates(
            ("one node", "one node", 100.0),
            ("gossip", "gossip", inside),
            ("hiertrain", "HierTrain", outside),
            ("hop", "DLion", None),
        )
    )
    assert frame["too_close"].to_list() == ["gossip", "one node; hiertrain", "gossip", None]


def test_measured_times_leave_less_open() -> None:
    apart = (widest("averaging", "layers").margin + widest("averaging").margin) / 2
    both = rates(("all-reduce", "all-reduce", 100.0), ("gossip", "gossip", 100 / apart))
    assert intervals(both)["too_close"].to_list() == ["gossip", "all-reduce"]
    assert intervals(both, "all-reduce")["too_close"][0] == "gossip"
    assert intervals(both, *both["method"])["too_close"].to_list() == ["", ""]


def test_ties_are_too_close_to_call() -> None:
    tie = rates(("all-reduce", "all-reduce", 10.0), ("hiertrain", "HierTrain", 10.0))
    assert intervals(tie)["too_close"].to_list() == ["hiertrain", "all-reduce"]


def test_what_does_not_fit_in_memory_is_close_to_nothing() -> None:
    methods = ["gossip", "gosgd", "fedavg"]
    rows = {"method": methods, "samples_per_s": [1.0] * 3, "fits": [True, False, None]}
    assert intervals(pl.DataFrame(rows))["too_close"].to_list() == [
        "fedavg",
        "gossip; fedavg",
        "gossip",
    ]


def test_the_answer_names_what_is_too_close_to_call() -> None:
    three = rates(
        ("all-reduce", "all-reduce", 10.0), ("hiertrain", "HierTrain", 9.5), ("fedavg", "FedAvg", 5)
    )
    assert lead(intervals(three)) == (
        "All-reduce comes first: phone is busy for 50 % of the time.",
        "It is 1.05 x as fast as the runner-up, HierTrain (too close to call).",
    )
    apart = intervals(three.filter(pl.col("method") != "hiertrain"))
    assert lead(apart)[0].startswith("All-reduce is the fastest: ")


@pytest.mark.parametrize("ratio", [1.1, 1.5])
def test_other_updates_are_faster_only_where_that_is_not_too_close_to_call(ratio: float) -> None:
    made_up = rates(("all-reduce", "all-reduce", 100.0), ("gossip", "gossip", 100 * ratio))
    columns = pl.DataFrame(schema=SCHEMA).join(made_up, on=made_up.columns, how="right")
    exact = pl.when(method="all-reduce").then(pl.lit(EQUAL)).otherwise(pl.lit("averages models"))
    frame = intervals(columns).with_columns(update=exact, samples_share=1.0, where=pl.lit(""))
    problem = Problem(profile_model("lenet5"), home())
    said = "If updates may differ, gossip is 1.5 x as fast."
    assert str(Comparison(problem, {}, frame)).endswith(said) == (ratio == 1.5)


def test_rows_that_share_a_letter_are_too_close_to_call_and_no_others(frame: pl.DataFrame) -> None:
    rows = frame.filter(pl.col("reason").is_null())
    letters = dict(zip(rows["method"], map(str.split, close_letters(rows)), strict=True))
    assert any(letters.values())
    for method, close in rows.select("method", "too_close").iter_rows():
        others = {one for one, own in letters.items() if {*own} & {*letters[method]}} - {method}
        assert others == {*filter(None, close.split("; "))}


def test_marks_have_the_intervals_of_their_rates(frame: pl.DataFrame) -> None:
    drawn = charts.rates(frame, ["LeNet-5"]).to_dict()
    (rows,) = drawn["datasets"].values()
    marks = {layer["mark"]["type"]: layer["encoding"] for layer in drawn["layer"]}
    assert {*marks} == {"point", "rule"}
    ends = [marks["rule"][end]["field"] for end in ("x", "x2")]
    assert all(row[ends[0]] < row["samples_per_s"] < row[ends[1]] for row in rows)
