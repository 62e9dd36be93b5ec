"""The calibration file is what its module writes; a corpus of one's own is added to it."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest

from workbench.clusters import load_constants
from workbench.comparison.validation import calibration, coverage
from workbench.comparison.validation.corpora import hivemind
from workbench.utils.files import DATA

TEXT = (DATA / "calibration" / "validation.toml").read_text(encoding="utf-8")
RUNS = hivemind.CORPUS.read(DATA / "measured")


def test_a_corpus_that_is_fitted_again_changes_nothing() -> None:
    assert calibration.with_constants(TEXT, "hivemind", hivemind.CORPUS, RUNS) == TEXT


def test_a_corpus_is_added_and_all_else_stays() -> None:
    text = calibration.with_constants(TEXT, "ours", hivemind.CORPUS, RUNS)
    before, after = tomllib.loads(TEXT), tomllib.loads(text)
    assert after["constants"].pop("ours") == before["constants"]["hivemind"]
    assert after == before
    nothing = replace(hivemind.CORPUS, constants={}, fit=lambda rows: {})
    emptied = tomllib.loads(calibration.with_constants(text, "ours", nothing, RUNS))
    assert emptied["constants"]["ours"] == {}


def test_the_whole_file_has_constants_and_intervals_of_its_corpora() -> None:
    text = calibration.to_toml({"hivemind": (hivemind.CORPUS, RUNS)})
    written = tomllib.loads(text)
    constants = load_constants("validation", "hivemind")
    assert written["constants"] == {"hivemind": constants}
    ratios = coverage.ratios({"hivemind": (hivemind.CORPUS, RUNS)}, {"hivemind": constants})
    (interval,) = written["intervals"].values()
    errors = coverage.errors(ratios)
    assert [interval[name] for name in errors._fields] == pytest.approx(errors, rel=1e-3)
    assert interval["held_out"] == pytest.approx(coverage.held_out(ratios)["within"][0], rel=1e-3)
    assert set(tomllib.loads(TEXT)) == set(written)
