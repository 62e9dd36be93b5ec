"""Executed copies of the notebooks, opened in JupyterLab: all is there without running a cell."""

from __future__ import annotations

import pytest

from tests.browser.conftest import OpenLab
from tests.browser.harness import answered_claims, assert_nothing_strange, pictures_in
from tests.conftest import Smoke


@pytest.mark.parametrize(
    ("name", "pictures", "claims"),
    [("01_dynacomm", 6, 21), ("02_hiertrain", 6, 16), ("03_edgegossip", 11, 16)],
)
def test_an_executed_copy_shows_all_without_being_run(
    open_lab: OpenLab, smoke: Smoke, name: str, pictures: int, claims: int
) -> None:
    with open_lab(smoke.results / name / f"{name}.ipynb") as lab:
        assert_nothing_strange(lab)
        assert pictures_in(lab) >= pictures
        system = name.partition("_")[2]
        assert answered_claims(lab, system).count() >= claims
