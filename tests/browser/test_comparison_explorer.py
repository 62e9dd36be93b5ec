"""The explorer of a comparison, in JupyterLab: other explorers' notebooks are closed."""

from __future__ import annotations

from pathlib import Path

from tests.browser.harness import Lab, assert_nothing_strange, notebook
from tests.browser.test_explorers import COMPARISON, as_far_as_the_explorer, plain


def test_sentence_rates_and_timelines_of_a_comparison_follow_its_sliders(
    lab: Lab, tmp_path: Path
) -> None:
    def said(marks: list[str]) -> str:
        (sentence,) = {mark for mark in marks if "of an iteration" in mark}
        return sentence

    def panels(marks: list[str]) -> set[str]:
        return {mark for mark in marks if "samples a second" in mark and ": " in mark}

    with lab.opened(notebook(tmp_path, *as_far_as_the_explorer(COMPARISON))):
        cells = as_far_as_the_explorer(COMPARISON)
        for number in range(len(cells) - 1):
            lab.run_cell(number)
        first = lab.settled()
        assert_nothing_strange(lab)
        for slider, key in (("bandwidth", "ArrowLeft"), ("workers", "ArrowRight")):
            lab.press(slider, key, times=4)
            lab.wait_for_other_marks(first)
            changed = lab.settled()
            assert "answered in" in lab.status()
            assert said(changed) != said(first)
            assert panels(changed) != panels(first)
            first = changed
        lab.run_cell(len(cells) - 1)
        assert plain(lab.settled(1)) == plain(first)
        assert lab.problems == []
