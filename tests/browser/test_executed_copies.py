"""Executed copies of the notebooks, opened in JupyterLab: all is there without running a cell."""

from __future__ import annotations

import pytest

from tests.browser.harness import Lab, assert_nothing_strange, pictures_in
from tests.conftest import Smoke
from workbench.reproduction.claims import load_claims


@pytest.mark.parametrize(
    ("name", "pictures"),
    [
        ("01_dynacomm", 6),
        ("02_hiertrain", 6),
        ("03_edgegossip", 11),
        ("04_dlion", 24),
        ("05_olpb", 16),
    ],
)
def test_an_executed_copy_shows_all_without_being_run(
    lab: Lab, smoke: Smoke, name: str, pictures: int
) -> None:
    with lab.opened(smoke.results / name / f"{name}.ipynb"):
        assert_nothing_strange(lab)
        assert pictures_in(lab) >= pictures
        system = name.partition("_")[2]
        answered = lab.page.locator(".jp-RenderedMarkdown tr", has_text=f"{system}.")
        assert answered.count() == len(load_claims().filter(system=system))
