"""Data sets by scale: the same on every machine, and none stands in for another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from workbench import datasets
from workbench.datasets import DatasetError
from workbench.datasets.catalogue import SOURCES, published
from workbench.datasets.published import CIFAR10, MNIST
from workbench.reproduction.data import data_set
from workbench.reproduction.parameters import DATASETS, SCALES


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that has MNIST and CIFAR-10."""
    monkeypatch.setenv("WORKBENCH_DATA", str(tmp_path))
    for data in (MNIST, CIFAR10):
        (tmp_path / data.layout).mkdir(parents=True)
        for name in data.files:
            (tmp_path / data.layout / name).touch()
    assert {"mnist", "cifar10"} <= set(datasets.available())
    return tmp_path


@pytest.mark.parametrize("paper", ["mnist", "cifar10"])
def test_copies_do_not_change_what_is_learnt_from(copies: Path, paper: str) -> None:
    chosen = {scale: data_set(scale, paper) for scale in SCALES}
    assert chosen == {"smoke": "digits", "default": "cluttered_digits", "paper": paper}


@pytest.mark.parametrize("scale", SCALES)
def test_a_users_choice_holds_at_every_scale(scale: str) -> None:
    for choice in (*DATASETS, "own.npz"):
        assert data_set(scale, "mnist", choice) == choice


def test_the_papers_data_missing_is_one_clear_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = replace(CIFAR10, mirrors=("http://127.0.0.1:9",))
    monkeypatch.setitem(SOURCES, "cifar10", published(nobody))
    with pytest.raises(DatasetError, match=r"'cifar10' is not in .*WORKBENCH_DATA.*cluttered"):
        datasets.load(data_set("paper", "cifar10"), folder=tmp_path)
