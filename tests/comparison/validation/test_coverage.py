"""Intervals by a naive oracle, and what they cover of made-up errors of known spread."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

from tests.oracles import intervals as oracle
from workbench.comparison.intervals import KINDS, errors_of, held_out
from workbench.comparison.validation import coverage
from workbench.comparison.validation.corpora import CORPORA
from workbench.reproduction import recordings


def ratios(
    sizes: dict[str, list[int]], seed: int = 0, spread: float = 0.1, **spreads: float
) -> pl.DataFrame:
    """Normal errors of corpora, by rows of each model; a corpus may have its own spread."""
    random = np.random.default_rng(seed)
    return pl.concat(
        pl.DataFrame(
            {
                "kind": "averaging",
                "corpus": corpus,
                "model": f"model {at}",
                "half": np.arange(count) % 2,
                "log": random.normal(0, spreads.get(corpus, spread), count),
            }
        )
        for corpus, models in sizes.items()
        for at, count in enumerate(models)
    )


def by_loops(frame: pl.DataFrame) -> oracle.Logarithms:
    logs: dict[str, dict[str, list[float]]] = {}
    for corpus, model, log in frame.select("corpus", "model", "log").iter_rows():
        logs.setdefault(corpus, {}).setdefault(model, []).append(log)
    return logs


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("sizes", [{"a": [7, 4], "b": [23]}, {"a": [3]}, {"a": [31, 2], "b": [6]}])
def test_intervals_and_margins_are_those_of_loops(sizes: dict[str, list[int]], seed: int) -> None:
    frame = ratios(sizes, seed)
    for level in (0.61, 0.83, 0.9):
        found = coverage.errors(frame, level)
        assert (found.low, found.high) == pytest.approx(oracle.interval(by_loops(frame), level))
        assert found.margin == pytest.approx(oracle.margin(by_loops(frame), level))


def test_a_higher_level_is_no_narrower() -> None:
    frame = ratios({"a": [40, 30], "b": [25]})
    found = [coverage.errors(frame, level) for level in (0.5, 0.7, 0.8, 0.9, 0.95)]
    lows, highs, margins = zip(*found, strict=True)
    assert list(lows) == sorted(lows, reverse=True)
    assert list(highs) == sorted(highs)
    assert list(margins) == sorted(margins)
    assert len(set(margins)) == len(margins)


def test_few_rows_have_the_interval_from_the_least_to_the_greatest() -> None:
    frame = ratios({"a": [10]})
    found = coverage.errors(frame)
    assert np.log([found.low, found.high]) == pytest.approx(
        [frame["log"].min(), frame["log"].max()]
    )


def test_made_up_errors_have_the_interval_and_the_margin_of_their_spread() -> None:
    frame = ratios({"a": [2000, 2000]}, spread=0.1)
    found = coverage.errors(frame)
    low, high = norm.ppf([0.05, 0.95], scale=0.1)
    assert np.log([found.low, found.high]) == pytest.approx([low, high], rel=0.05)
    two = norm.ppf(0.9, scale=0.1 * math.sqrt(2))  # a difference of two errors
    assert math.log(found.margin) == pytest.approx(two, rel=0.05)


def test_held_out_rows_of_made_up_errors_are_covered_in_nine_of_ten_cases() -> None:
    covered = coverage.held_out(ratios({"a": [3000, 1000], "b": [500]}, spread=0.2))
    assert covered["corpus"].to_list() == ["a", "b", "all"]
    assert covered["rows"].to_list() == [4000, 500, 4500]
    deviation = 100 * math.sqrt(0.9 * 0.1 / 500)
    for column in ("within", "in order"):
        assert covered[column].to_numpy() == pytest.approx(90, abs=3 * deviation)
        mean = covered[column][:2].mean()
        assert covered[column][2] == pytest.approx(mean)


def test_a_large_corpus_counts_no_more_than_a_small_one() -> None:
    """One is ten times as exact; the interval is where both together have a tenth outside."""
    sizes = {"exact": [4000], "rough": [400]}
    covered = coverage.held_out(ratios(sizes, exact=0.02, rough=0.2))
    exact, rough, both = covered["within"]
    assert exact == 100
    assert rough == pytest.approx(80, abs=6)
    assert both == pytest.approx((exact + rough) / 2)


def test_rows_are_judged_by_the_other_half() -> None:
    """Where halves differ tenfold, the exact one is within, and the rough one mostly is not."""
    half = pl.when(half=0).then(pl.col("log") / 10).otherwise("log")
    covered = coverage.held_out(ratios({"a": [4000]}).with_columns(log=half))
    inside = 2 * norm.cdf(norm.ppf(0.95) / 10) - 1
    assert covered["within"][0] == pytest.approx(100 * (1 + inside) / 2, abs=2)


def test_another_model_is_judged_by_all_others() -> None:
    """Of two models without spread, which err by a tenth more or less, neither meets the other."""
    logs = {"long": 0.1, "short": -0.1, "exact": 0.0}
    rows = [("layers", "a", model, at % 2, log) for model, log in logs.items() for at in range(30)]
    names = ["kind", "corpus", "model", "half", "log"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    assert coverage.held_out(frame)["within"].to_list() == [100, 100]
    judged = coverage.new_models(frame).sort("corpus")
    assert judged["corpus"].to_list() == ["a", "all"]
    assert judged["new model"].to_list() == pytest.approx([100 / 3, 100 / 3])


def test_each_kind_covers_what_it_promises_on_rows_that_were_held_out() -> None:
    recorded = recordings.load("validation", "coverage")
    assert recorded is not None
    covered = recorded.frame.filter(corpus="all")
    assert set(covered["kind"]) == set(KINDS)
    for kind, within in covered.select("kind", "within").iter_rows():
        assert 87 <= within <= 93
        assert held_out(kind) == pytest.approx(within, rel=1e-3)
    own = recorded.frame.filter(pl.col("corpus") != "all").select("corpus", "kind")
    assert dict(own.iter_rows()) == {name: corpus.kind for name, corpus in CORPORA.items()}


def test_frozen_intervals_are_those_of_the_recorded_predictions() -> None:
    recorded = recordings.load("validation", "predictions")
    assert recorded is not None
    kinds = pl.col("corpus").replace_strict({name: own.kind for name, own in CORPORA.items()})
    rows = recorded.frame.filter(role="predict").select(
        "corpus",
        kind=kinds,
        model=pl.lit(""),
        log=-(1 + pl.col("predicted_error").cast(pl.Float64)).log(),
    )
    for kind in KINDS:
        own = rows.filter(kind=kind)
        sizes = own.group_by("corpus").len()["len"]
        values = own.with_columns(weight=1 / pl.len().over("corpus")).sort("log")
        share = values["weight"].cum_sum() / len(sizes)
        frozen = errors_of(kind)
        inside = share.filter(values["log"].is_between(math.log(frozen.low), math.log(frozen.high)))
        assert inside.max() - inside.min() == pytest.approx(0.9, abs=0.03)  # type: ignore[operator]
        assert frozen.low < 1 < frozen.high
