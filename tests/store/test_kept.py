"""What is kept is used while the code that made it is the same, and whole."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from workbench.memory import stored_dataflows
from workbench.olpb.costs import stored_passes
from workbench.profiles import analytic
from workbench.store import code
from workbench.store.kept import Kept, _content, packed
from workbench.utils.files import ROOT

KEPT = {
    "profiles": analytic.KEPT,
    "dataflows": stored_dataflows.KEPT,
    "passes": stored_passes.KEPT,
}
"""All that is committed."""

DOCSTRING = '"""Other words."""\n'


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    """Of a package with two modules, ``made.of`` computed by ``made.by``."""
    package = tmp_path / "made"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "by.py").write_text(
        "from made.rate import RATE\n\ndef make():\n    return RATE\n\ndef other(): ...\n"
    )
    (package / "rate.py").write_text("RATE = 2\n")
    return Kept(tmp_path / "value.zip", ("made.by", "make"), "the script", package)


def again(kept: Kept) -> Kept:
    """The same, as another process sees it."""
    _content.cache_clear()
    return kept


@pytest.mark.parametrize("name", KEPT)
def test_what_is_committed_was_made_by_the_code_as_it_is(name: str) -> None:
    kept = KEPT[name]
    assert kept.content() is not None, f"run .venv/bin/python {kept.script}"
    assert kept.path.stat().st_size < 2_000_000


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    package = tmp_path_factory.mktemp("copied") / "workbench"
    return shutil.copytree(ROOT / "workbench", package)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        *((name, file) for name in KEPT for file in ("zoo/resnet.py", "graphs/recorder.py")),
        ("profiles", "graphs/layers.py"),
        ("profiles", "profiles/model_profile.py"),
        ("dataflows", "graphs/functional.py"),
        ("dataflows", "graphs/optimiser/fusion.py"),
        ("dataflows", "memory/dataflow.py"),
        ("dataflows", "memory/scratch.py"),
        ("passes", "olpb/algorithms/schedules.py"),
        ("passes", "olpb/costs/backward.py"),
        ("passes", "olpb/costs/patterns.py"),
    ],
)
def test_changed_code_asks_for_it_again_and_other_words_do_not(
    name: str, file: str, copied: Path
) -> None:
    kept = replace(KEPT[name], path=copied / "value", package=copied)
    kept.keep(b"value")
    path = copied / file
    text = path.read_text()
    try:
        path.write_text(f"# Other words.\n{DOCSTRING}{text[text.index('from __future__') :]}")
        assert again(kept).content() is not None
        path.write_text(f"{text}\nprint()\n")
        assert again(kept).content() is None
    finally:
        path.write_text(text)


def test_content_is_what_was_kept(kept: Kept) -> None:
    assert kept.content() is None
    kept.keep(packed([("one", b"1"), ("two", b"2")]))
    assert kept.content() == packed([("one", b"1"), ("two", b"2")])
    assert (kept.member("two"), kept.member("three")) == (b"2", None)


def test_only_code_that_is_reached_matters(kept: Kept) -> None:
    kept.keep(b"value")
    source = kept.package / "by.py"
    source.write_text(source.read_text().replace("other(): ...", "other(): return 1"))
    assert again(kept).content() == b"value"
    (kept.package / "rate.py").write_text("RATE = 3\n")
    assert again(kept).content() is None


def test_a_maker_that_is_not_defined_is_refused(kept: Kept) -> None:
    with pytest.raises(AssertionError, match=r"made\.by\.gone is not defined"):
        replace(kept, made_by=("made.by", "gone")).keep(b"value")


def test_a_module_that_is_gone_is_other_code(kept: Kept) -> None:
    kept.keep(b"value")
    (kept.package / "rate.py").unlink()
    assert again(kept).content() is None


def test_unchanged_sources_are_not_parsed(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.keep(b"value")
    monkeypatch.delattr(code, "used")
    assert again(kept).content() == b"value"


@pytest.mark.parametrize("part", ["content", "key"])
def test_a_damaged_file_is_refused(part: str, kept: Kept) -> None:
    kept.keep(b"value")
    path = kept.path if part == "content" else kept.key
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(
        ValueError, match=r"value\.zip is damaged: run the script to write it again"
    ):
        again(kept).content()
