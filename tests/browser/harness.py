"""Drives a notebook in a real JupyterLab, in a real browser, offline, and tells what went wrong.

def test_the_slider_moves_the_chart(lab):
    with lab.opened(Path("notebooks/01_dynacomm.ipynb")):
        lab.run_cell(0)
        before = lab.marks()
        lab.press("bandwidth", "ArrowRight", times=5)
        lab.wait_for_other_marks(before)
        assert lab.problems == []
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Locator, Page, Route

from tests.reproduction.helpers import write_notebook
from workbench.utils.files import ROOT

CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LOCAL = {"127.0.0.1", "localhost"}

# Cells off screen, drawn.
SETTINGS = {"@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"}}


def is_local(url: str) -> bool:
    return urlsplit(url).hostname in LOCAL


@contextlib.contextmanager
def jupyterlab(folder: Path, state: Path, start_s: float = 60.0) -> Iterator[Server]:
    """Serve `folder` with ``make lab``, on a free port of this machine only, without a browser.

    `state` takes everything JupyterLab writes, so that the user's settings stay out of the test.
    """
    for name, values in SETTINGS.items():
        path = state / "settings" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex(16)
    environment = {
        **os.environ,
        "JUPYTER_CONFIG_DIR": str(state / "config"),
        "JUPYTER_DATA_DIR": str(state / "data"),
        "JUPYTER_RUNTIME_DIR": str(state / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(state / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(state / "workspaces"),
        "IPYTHONDIR": str(state / "ipython"),
        "JUPYTER_TOKEN": token,
    }
    arguments = [
        *("--no-browser", "--expose-app-in-browser"),
        *(f"--ServerApp.port={port}", "--ServerApp.port_retries=0"),
        "--LabApp.extension_manager=readonly",
    ]
    command = ["make", "--old-file=set-up", "lab"]
    log = state / "jupyterlab.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [*command, f"NOTEBOOKS={folder}", f"ARGS={' '.join(arguments)}"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            address = f"http://127.0.0.1:{port}"
            _wait_for_server(server, f"{address}/api/status?token={token}", log, start_s)
            yield Server(address, token, folder)
        finally:
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(server.pid, signal.SIGTERM)
                try:
                    server.wait(10)
                except subprocess.TimeoutExpired:
                    os.killpg(server.pid, signal.SIGKILL)
                    server.wait()


def _wait_for_server(
    server: subprocess.Popen[bytes], status: str, log: Path, at_most_s: float
) -> None:
    deadline = time.monotonic() + at_most_s
    while True:
        with (
            contextlib.suppress(urllib.error.URLError, ConnectionError),
            urllib.request.urlopen(status),
        ):
            return
        if server.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()[-4000:]}")
        time.sleep(0.1)


@dataclass(frozen=True)
class Server:
    """A JupyterLab that serves `folder`."""

    address: str
    token: str
    folder: Path


@dataclass
class Lab:
    """A page with JupyterLab, and the notebook that is open in it.

    Attributes
    ----------
    page
        Playwright's page, for whatever has no method here.
    server
        Whose JupyterLab it is.
    folder
        Where the notebook's copy lies: the kernel's working folder.
    problems
        Console errors, uncaught exceptions, failed requests, and requests that would have left
        this machine (blocked). A good test ends with this list empty.
    """

    page: Page
    server: Server
    folder: Path = field(init=False)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        page = self.page
        page.on("console", lambda it: self._note(it.type == "error", f"console: {it.text}"))
        page.on("pageerror", lambda error: self._note(True, f"uncaught: {error}"))
        page.on("requestfailed", lambda it: self._note(True, f"failed: {it.url} ({it.failure})"))
        page.on(
            "response", lambda it: self._note(it.status >= 400, f"status {it.status}: {it.url}")
        )
        page.on(
            "websocket", lambda it: self._note(not is_local(it.url), f"left this machine: {it.url}")
        )
        page.route("**/*", self._keep_inside)
        page.goto(f"{self.server.address}/lab?reset&token={self.server.token}")
        page.wait_for_function("window.jupyterapp !== undefined", timeout=40_000)
        page.evaluate("async () => { await window.jupyterapp.restored; }")

    def _note(self, wrong: bool, what: str) -> None:
        if wrong:
            self.problems.append(what)

    def _keep_inside(self, route: Route) -> None:
        url = route.request.url
        leaves = url.startswith(("http:", "https:")) and not is_local(url)
        self._note(leaves, f"left this machine: {url}")
        if leaves:
            route.abort()
        else:
            route.continue_()

    @contextlib.contextmanager
    def opened(self, notebook: Path) -> Iterator[Lab]:
        """Open a copy of a notebook, in a folder of its own: ``with lab.opened(path):``."""
        self.folder = Path(tempfile.mkdtemp(dir=self.server.folder))
        shutil.copy(notebook, self.folder)
        self.problems.clear()
        self.page.evaluate(
            """async path => {
                await window.jupyterapp.commands.execute('docmanager:open', {path});
            }""",
            f"{self.folder.name}/{notebook.name}",
        )
        self.page.wait_for_function(
            "window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status"
            " === 'idle'",
            timeout=40_000,
        )
        yield self
        self.page.evaluate(
            """async () => {
                const widget = window.jupyterapp.shell.currentWidget;
                await widget.sessionContext.shutdown();
                widget.dispose();  // without saving
            }"""
        )

    def run_cell(self, number: int, at_most_s: float = 50.0) -> None:
        """Run one cell, counted from 0, and wait for it; fail with its error, if any."""
        self.page.evaluate(
            "n => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = n }", number
        )
        self.page.evaluate(
            """async at_most_s => {
                const late = new Promise((_, fail) => setTimeout(
                    () => fail(new Error(`cells still run after ${at_most_s} s`)),
                    at_most_s * 1e3));
                const run = window.jupyterapp.commands.execute('notebook:run-cell');
                await Promise.race([run, late]);
            }""",
            at_most_s,
        )
        self.wait_for_idle()
        for ran, outputs in enumerate(self.outputs()):
            for output in outputs:
                if output["output_type"] == "error":
                    raise AssertionError(
                        f"cell {ran} failed: {output['ename']}: {output['evalue']}"
                    )

    def wait_for_idle(self, at_most_s: float = 20.0) -> None:
        """Wait until the kernel has nothing to do."""
        self.page.wait_for_function(
            "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'idle'",
            timeout=at_most_s * 1e3,
        )

    def clear(self) -> None:
        """Take every cell's outputs away."""
        self.page.evaluate("window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")

    def outputs(self) -> list[list[dict[str, Any]]]:
        """Outputs of every cell, as in the notebook's file; none for text cells."""
        cells: list[list[dict[str, Any]]] = self.page.evaluate(
            """() => window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells.map(
                cell => cell.toJSON().outputs ?? [])"""
        )
        return cells

    def control(self, description: str) -> Locator:
        """Find the slider or menu that bears `description`, or begins with it."""
        labels = self.page.locator(".widget-inline-hbox > .widget-label")
        label = labels.filter(has_text=description).first
        label.wait_for(timeout=15_000)
        return label.locator("xpath=..")

    def press(self, description: str, key: str, times: int = 1) -> None:
        """Focus a control as the Tab key would, and press `key`, e.g. ``"ArrowRight"``."""
        handle = self.control(description).locator(".noUi-handle, select").first
        handle.focus()
        for _ in range(times):
            handle.press(key)

    def choose(self, description: str, option: str) -> None:
        """Choose an option of a menu."""
        self.control(description).locator("select").select_option(label=option)

    def setting(self, description: str) -> str:
        """What a slider's read-out, or a menu, shows."""
        control = self.control(description)
        if control.locator("select").count():
            return str(control.locator("select").evaluate("menu => menu.selectedOptions[0].label"))
        return control.locator(".widget-readout").inner_text()

    def marks(self, chart: int = 0) -> list[str]:
        """Shapes and texts of the n-th interactive chart, in drawing order, as attributes."""
        drawing = self.page.locator(".vega-embed svg").nth(chart)
        drawing.wait_for(timeout=20_000)
        marks: list[str] = drawing.evaluate(
            """svg => [...svg.querySelectorAll('path, text, line')].map(mark =>
                [mark.getAttribute('d'), mark.getAttribute('transform'), mark.getAttribute('x2'),
                 mark.getAttribute('fill'), mark.textContent].join(' '))"""
        )
        return marks

    def wait_for_other_marks(
        self, before: list[str], chart: int = 0, at_most_s: float = 10.0
    ) -> list[str]:
        """Wait until the n-th chart shows something else than `before`; returns what it shows."""
        deadline = time.monotonic() + at_most_s
        while (now := self.marks(chart)) == before:
            if time.monotonic() > deadline:
                raise AssertionError(f"the chart did not change within {at_most_s} s")
            self.page.wait_for_timeout(50)
        return now

    def settled(self, chart: int = 0) -> list[str]:
        """Return the n-th chart's marks once they no longer change."""
        marks = None
        while marks != (marks := self.marks(chart)):
            self.page.wait_for_timeout(500)
            self.wait_for_idle()
        return marks

    def status(self, role: str = "status") -> str:
        """Text of the explorer's line below the chart; ``role="alert"`` for an error."""
        line = self.page.locator(f".widget-html [role={role}]").first
        line.wait_for(timeout=10_000)
        return line.inner_text()


def notebook(folder: Path, *sources: str) -> Path:
    """Write a notebook of these cells."""
    return write_notebook(folder / "notebook.ipynb", *sources, parameters="")


SHOWN_PICTURES = """() => [...document.querySelectorAll('.jp-OutputArea-output')].flatMap(
    output => [...output.querySelectorAll('img, .jp-RenderedSVG svg')]).filter(picture => {
        const box = picture.getBoundingClientRect();
        return (picture.complete ?? true) && (picture.naturalWidth ?? 1) > 0
            && box.width > 200 && box.height > 50;
    }).length"""


def pictures_in(lab: Lab) -> int:
    """How many outputs are pictures; one that is shown as an explorer is none."""
    outputs = [output for cell in lab.outputs() for output in cell]
    explorers = lab.page.locator(".jp-OutputArea-output .vega-embed").count()
    return sum("image/svg+xml" in output.get("data", {}) for output in outputs) - explorers


def assert_nothing_strange(lab: Lab) -> None:
    """Every picture shows, no cell wrote to stderr, and the browser had nothing to complain of."""
    pictures = pictures_in(lab)
    lab.page.wait_for_function(f"({SHOWN_PICTURES})() >= {pictures}", timeout=20_000)
    assert lab.page.evaluate(SHOWN_PICTURES) == pictures
    outputs = [output for cell in lab.outputs() for output in cell]
    assert [output for output in outputs if output.get("name") == "stderr"] == []
    assert lab.problems == []
