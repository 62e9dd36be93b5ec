"""``make lab`` opens JupyterLab without a question, and without asking the world."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser

from tests.browser.harness import Lab, make_lab

RESTORED = "async () => { await window.jupyterapp.restored; }"


def test_it_asks_nothing_at_first_start(browser: Browser, tmp_path: Path) -> None:
    with make_lab(tmp_path) as server:
        lab = Lab(browser.new_page(), server.folder)
        lab.page.goto(f"{server.address}/lab?token={server.token}")
        lab.page.wait_for_function("window.jupyterapp !== undefined", timeout=40_000)
        lab.page.evaluate(RESTORED)
        lab.page.get_by_text("01_dynacomm.ipynb").first.wait_for(timeout=20_000)
        lab.page.wait_for_timeout(3000)  # a question comes within one second
        lab.screenshot(tmp_path / "lab.png")
        assert lab.page.locator(".Toastify__toast").all_inner_texts() == []
        assert lab.problems == []
        lab.page.close()
