"""Data sets by name: which there are, what they hold, where they are looked for."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.datasets.conftest import REAL
from tests.datasets.server import Server
from workbench.datasets import (
    SOURCES,
    DatasetError,
    available,
    data_folder,
    load,
    title,
)
from workbench.datasets.published import Published
from workbench.reproduction.data import AUTO
from workbench.reproduction.parameters import DATASETS
from workbench.utils.checks import UnknownNameError
from workbench.utils.files import DATA, ROOT


def test_names_are_those_of_the_notebook_parameter() -> None:
    # Notebooks train models of images, of ten classes; ImageNet has a thousand.
    assert tuple(name for name in SOURCES if name not in ("imagenet8", "markov")) == DATASETS


@pytest.mark.parametrize("page", ["docs/how-to/data.md", "data/README.md"])
def test_pages_say_where_each_is_from(page: str) -> None:
    rows = re.findall(r"^\|((?: `\w+`,?)+) \|", (ROOT / page).read_text(), re.MULTILINE)
    assert {*re.findall(r"`(\w+)`", "".join(rows))} >= set(DATASETS) - {AUTO}


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"Did you mean 'fashion_mnist'.*PATH\.npz"):
        load("fashionmnist")


def test_what_is_available_needs_no_network(
    small_mnist: Published, server: Server, tmp_path: Path
) -> None:
    always = ["digits", "cluttered_digits", "markov"]
    assert available(tmp_path) == always
    load("mnist", folder=tmp_path)
    assert available(tmp_path) == [*always, "mnist"]
    asked = server.asked.total()
    load("mnist", folder=tmp_path)
    assert server.asked.total() == asked


def test_charts_write_names_as_people_do() -> None:
    assert [title(name) for name in DATASETS[:3]] == ["digits", "cluttered digits", "MNIST"]
    assert title("own") == "own"


class TestFolder:
    def test_is_the_repositorys_without_the_variable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("WORKBENCH_DATA", raising=False)
        assert data_folder() == DATA / "downloads"

    def test_is_the_users(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("WORKBENCH_DATA", str(tmp_path))
        assert data_folder() == tmp_path

    def test_must_exist_but_digits_do_not_need_it(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("WORKBENCH_DATA", str(tmp_path / "none"))
        with pytest.raises(DatasetError, match=r"WORKBENCH_DATA=.*is not a folder"):
            load("mnist")
        assert load("digits").name == "digits"


def test_digits_are_all_there_once_and_balanced() -> None:
    digits = load("digits")
    assert digits.x_train.shape == (1442, 1, 8, 8)
    assert digits.x_test.shape == (355, 1, 8, 8)
    assert (digits.x_train.min(), digits.x_train.max()) == (0, 1)
    counts = np.bincount(digits.y_test)
    assert counts.min() >= 34
    assert counts.max() <= 36
    both = np.concatenate([digits.x_train, digits.x_test])
    assert len(np.unique(both.reshape(1797, -1), axis=0)) == 1797


def test_part_of_cifar10_is_refused_unless_it_is_the_very_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cifar10_10k is not in .*SHA-256 9cd10b.*WORKBENCH_DATA"):
        load("cifar10_10k", folder=tmp_path)
    (tmp_path / "cifar10_10k.npz").write_bytes(b"other")
    with pytest.raises(ValueError, match="another file: its SHA-256 is not 9cd10b"):
        load("cifar10_10k", folder=tmp_path)
    here = REAL / "cifar10_10k.npz"
    if here.exists():
        data = load("cifar10_10k", folder=here.parent)
        assert (data.name, len(data.y_train), len(data.y_test)) == ("cifar10_10k", 10_000, 2_000)


def test_a_home_folder_that_is_not_there_is_one_clear_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ValueError, match=r"~nobody-here/x\.npz: there is no home folder"):
        load("~nobody-here/x.npz")
    monkeypatch.setenv("WORKBENCH_DATA", "~nobody-here/x")
    with pytest.raises(ValueError, match="~nobody-here/x: there is no home folder"):
        load("mnist")
