"""Rows that count, accuracies to wait for, and gains, by hand."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
import pytest

from workbench.dlion.paper.accuracy import STATED_TARGET, final, gains, highest, target_of

Curve = Mapping[float, float | None]


def curve(top1: Curve, seed: int = 1, system: str = "dlion", where: str = "homo_a") -> pl.DataFrame:
    """A training of 30 s: accuracy by second."""
    about = {"system": system, "environment": where, "seed": seed, "seconds": 30.0}
    rows = [{**about, "reason": None, "at_s": at_s, "top1": value} for at_s, value in top1.items()]
    types = {"top1": pl.Float64, "at_s": pl.Float64, "reason": pl.String}
    return pl.DataFrame(rows, schema_overrides=types)


ONE = curve({10.0: 0.2, 20.0: 0.6, 30.0: 0.5})
FAILED = curve({10.0: None}, system="ako").with_columns(reason=pl.lit("diverged"))


def test_the_last_row_counts_of_what_ended_well() -> None:
    assert final(ONE)["top1"].to_list() == [0.5]
    assert final(pl.concat([ONE, curve({30.0: 0.4}, seed=2)]))["top1"].to_list() == [0.5, 0.4]
    assert final(pl.concat([FAILED, ONE]))["system"].to_list() == ["dlion"]
    assert final(curve({10.0: 0.2, 20.0: 0.4})).is_empty()
    assert final(curve({10.0: 0.2, 30.0: None})).is_empty()


def test_the_highest_row_counts_of_what_ended_well() -> None:
    twice = curve({10.0: 0.7, 20.0: 0.7, 30.0: 0.1}, seed=2)
    short = curve({10.0: 0.9}, system="ako")
    found = highest(pl.concat([FAILED, ONE, twice, short])).sort("seed")
    assert found.select("at_s", "top1").rows() == [(20.0, 0.6), (10.0, 0.7)]


def test_the_target_is_the_papers_or_what_all_reach() -> None:
    assert STATED_TARGET == 0.7
    assert target_of(curve({10.0: 0.9, 30.0: 0.8})) == 0.7
    assert target_of(pl.concat([ONE, curve({20.0: 0.75}, system="gaia")])) == 0.6
    assert target_of(pl.concat([ONE, curve({30.0: 0.3}, seed=2)])) == 0.3
    assert target_of(pl.concat([FAILED, ONE])) == 0.6
    assert target_of(ONE.with_columns(top1=pl.lit(None, pl.Float64))) == 0


def test_gains_are_of_the_seeds_that_all_environments_have() -> None:
    """0.4, 0.5 and 0.3 against 0.6: 50, 20 and 100 percent."""
    theirs = {"homo_a": 0.4, "hetero_cpu_a": 0.5, "hetero_cpu_b": 0.3}
    each = [
        curve({30.0: top1}, system=system, where=where)
        for where, ako in theirs.items()
        for system, top1 in (("ako", ako), ("dlion", 0.6))
    ]
    second = [one.with_columns(seed=pl.lit(2, pl.Int64)) for one in each[:3]]
    frame = pl.concat([*each, *second])
    assert gains(frame, list(theirs), "ako") == [pytest.approx(170 / 3)]
    assert gains(frame, ["homo_a"], "ako") == pytest.approx([50, 50])
    assert gains(frame, ["homo_b"], "ako") == []
