"""The Chromium that tests drive: ``python -m tests.browser.chromium`` prints its path."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from playwright.sync_api import Playwright, sync_playwright


def find_chromium(playwright: Playwright) -> str | None:
    """Path of ``$WORKBENCH_CHROMIUM``, or of the first Chromium that runs."""
    named = os.environ.get("WORKBENCH_CHROMIUM")
    usual = ("chromium", "chromium-browser", "google-chrome", playwright.chromium.executable_path)
    paths = map(shutil.which, [named] if named else usual)
    return next((path for path in paths if path and _runs(path)), None)


def _runs(path: str) -> bool:
    """Whether this is a browser, and not Ubuntu's advice to install a snap."""
    return subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    with sync_playwright() as driver:
        chromium = find_chromium(driver)
    if chromium is None:
        sys.exit("test: no Chromium found")
    print(f"test: browser {chromium}")
