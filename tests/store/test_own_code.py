"""Rows of a user's function rest on its source and on what it uses by name, and on nothing else."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench.store.own_code import own_code
from workbench.utils.checks import UserError
from workbench.utils.files import ROOT

HELPER = """\
import math

FACTOR = 2


def doubled(x):
    return FACTOR * x


def unused(x):
    return x
"""
MINE = """\
from dataclasses import dataclass

import numpy as np

import own_helper
from own_helper import doubled
from workbench.zoo import MODELS

WEIGHTS = np.arange(3)
UNUSED = 1


class Base:
    def of(self, x):
        return x + 1


@dataclass
class Model(Base):
    width: int = 3

    @property
    def size(self):
        return self.width * len(MODELS)

    @staticmethod
    def make(x):
        return Model(x)


def simple(seed):
    UNUSED = seed
    return {"x": doubled(UNUSED)}


def whole(seed, start=WEIGHTS):
    def inner(x):
        return Model.make(x).of(x)

    return {"x": inner(seed)}


def by_module(seed):
    return {"x": own_helper.doubled(seed)}


def late(seed):
    from own_helper import doubled as twice

    return {"x": twice(seed)}


def recursive(seed):
    return {"x": recursive(seed - 1)["x"] if seed else 0}
"""
NAMES = ["simple", "whole", "by_module", "late", "recursive"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Two modules of a user's, of which another version is imported each time."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "own_helper.py").write_text(HELPER)
    (tmp_path / "own_code_of_mine.py").write_text(MINE)
    yield tmp_path
    for name in ("own_helper", "own_code_of_mine"):
        sys.modules.pop(name, None)


def digests() -> dict[str, str]:
    import linecache

    for name in ("own_helper", "own_code_of_mine"):
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    linecache.clearcache()
    module = importlib.import_module("own_code_of_mine")
    return {name: own_code(getattr(module, name)) for name in NAMES}


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        ("own_code_of_mine", "def simple", "# A comment\n\n\ndef simple", set()),
        ("own_code_of_mine", "UNUSED = 1", "UNUSED = 2", set()),
        ("own_code_of_mine", "doubled(UNUSED)", "doubled(  UNUSED  )", set()),
        ("own_code_of_mine", "doubled(UNUSED)", "doubled(UNUSED) + 1", {"simple"}),
        ("own_code_of_mine", "np.arange(3)", "np.arange(4)", {"whole"}),
        ("own_code_of_mine", "width: int = 3", "width: int = 4", {"whole"}),
        ("own_code_of_mine", "self.width *", "self.width +", {"whole"}),
        ("own_code_of_mine", "return Model(x)", "return Model(x + 1)", {"whole"}),
        ("own_code_of_mine", "return x + 1", "return x + 2", {"whole"}),
        ("own_code_of_mine", "seed - 1", "seed - 2", {"recursive"}),
        ("own_helper", "FACTOR * x", "FACTOR + x", {"simple", "by_module", "late"}),
        ("own_helper", "FACTOR = 2", "FACTOR = 3", {"simple", "by_module", "late"}),
        ("own_helper", "def unused(x):\n    return x", "", {"by_module"}),
    ],
)
def test_what_a_change_changes(
    folder: Path, file: str, old: str, new: str, changed: set[str]
) -> None:
    before = digests()
    assert before == digests()
    path = folder / f"{file}.py"
    assert path.read_text().count(old) == 1
    path.write_text(path.read_text().replace(old, new))
    after = digests()
    assert {name for name in NAMES if before[name] != after[name]} == changed


def test_a_source_that_nobody_can_read_is_refused() -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    exec("def typed(seed):\n    return {'x': seed}", names)
    with pytest.raises(UserError, match="the source of typed cannot be read"):
        own_code(names["typed"])  # type: ignore[arg-type]


VALUES = """\
import numpy as np
import polars as pl
import torch

from workbench import datasets
from workbench.clusters import Link
from workbench.store.own_code import own_code

torch.manual_seed(int(sys.argv[1]))
MODEL = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).bfloat16()
DIGITS, FRAME, LINK = datasets.load("digits"), pl.DataFrame({"a": [[1], None]}), Link(8e6)
TEXTS = {"b", "a", "another", 3.5}


def learnt(seed):
    return MODEL, DIGITS, FRAME, LINK, TEXTS, np.arange(3).T


print(own_code(learnt))
"""


def test_values_have_the_same_digest_in_every_process(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text("import sys\n" + VALUES)
    said = [
        subprocess.run(
            [sys.executable, script, seed],
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed, hashes in (("1", "1"), ("1", "2"), ("2", "1"))
    ]
    assert said[0] == said[1] != said[2]
