"""How soon a moved slider shows another chart, in a real browser.

Run ``python benchmarks/explorers.py``, or name systems, or the comparison of all, ``which_way``;
with ``--pages DIR`` those of the pages that ``workbench share --all -o DIR`` wrote.

JupyterLab serves each one's notebook. Every slider is moved by keys, every menu set to each of
its options; timed is what a user waits for: from the key to the last change of the drawing, with
the kernel, the message there and back and the browser's drawing in between. The bar is 100 ms for
the median answer of every control of every system; on a page, which has no kernel, 50 ms.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from statistics import median

from playwright.sync_api import Browser, Page, TimeoutError, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.browser.chromium import find_chromium  # noqa: E402
from tests.browser.harness import CHROMIUM_ARGUMENTS, Lab, jupyterlab  # noqa: E402
from workbench.share import EXPLORERS  # noqa: E402
from workbench.widgets import Menu, Slider, controls  # noqa: E402

BAR_MS = 100.0
BAR_OF_A_PAGE_MS = 50.0
MOVES = 8

WATCH = """asking => {
    const seen = { asked: 0, changed: 0 };
    const ask = () => { seen.asked = performance.now(); seen.changed = 0; };
    for (const event of asking) window.addEventListener(event, ask, true);
    new MutationObserver(() => { seen.changed = performance.now(); }).observe(
        document.querySelector('.vega-embed').parentElement,
        { subtree: true, childList: true, attributes: true, characterData: true });
    window.answer_ms = () => seen.changed && performance.now() - seen.changed > 250
        ? seen.changed - seen.asked : 0;
}"""


def answer_ms(page: Page, at_most_s: float = 20.0) -> float:
    """Milliseconds from the latest key to the last change, once nothing has changed for a while."""
    page.wait_for_function("window.answer_ms() > 0", timeout=1e3 * at_most_s)
    found: float = page.evaluate("window.answer_ms()")
    return found


def measured(lab: Lab, name: str, control: Slider | Menu) -> list[float]:
    described = control.label or name.replace("_", " ")
    times_ms = []
    if isinstance(control, Menu):
        first = lab.setting(described)
        others = [option for option in control.options if option != first]
        for option in [*others, first]:  # back to where every control changes the chart
            lab.choose(described, option)
            times_ms.append(answer_ms(lab.page))
        return times_ms
    for move in range(MOVES):
        lab.press(described, "ArrowLeft" if move % 4 < 2 else "ArrowRight")
        try:
            times_ms.append(answer_ms(lab.page))
        except Exception:  # a slider at its end, or of whole numbers, need not change the chart
            continue
    return times_ms


def on_a_page(page: Page) -> list[float]:
    """Move every control of a shared page, one stop at a time, after it has looked ahead."""
    times_ms = []
    for name in page.evaluate("shared.controls.map(control => control.name)"):
        control = page.locator(f"#{name}")
        keys = ["ArrowUp"] if control.evaluate("it => it.tagName") == "SELECT" else ["ArrowLeft"]
        keys = [*keys, *(["ArrowDown"] if keys == ["ArrowUp"] else ["ArrowRight"])]
        for move in range(MOVES):
            before = control.evaluate("it => it.value")
            page.wait_for_timeout(700)
            control.press(keys[move % 4 // 2])
            if control.evaluate("it => it.value") == before:  # at its end
                continue
            with contextlib.suppress(TimeoutError):  # the chart may be the same
                times_ms.append(answer_ms(page, 2.0))
    return times_ms


def pages(browser: Browser, folder: Path, names: list[str]) -> None:
    """Print a line for each page: its size, its settings, and the answers to its controls."""
    print(f"{'page':12} {'kB':>6} {'settings':>9} {'ready':>7} {'median':>7} {'worst':>7}   ms")
    for name in names or EXPLORERS:
        path, page = folder / f"{name}.html", browser.new_page(offline=True)
        page.goto(path.resolve().as_uri())
        page.wait_for_selector("#chart[data-shown]", timeout=60_000)
        ready_ms = page.evaluate("performance.now()")
        page.wait_for_timeout(3000)
        page.evaluate(WATCH, ["keydown"])
        times_ms = on_a_page(page)
        count, kilobytes = page.evaluate("shared.points.length"), path.stat().st_size / 1e3
        print(
            f"{name:12} {kilobytes:6,.0f} {count:9,} {ready_ms:7.0f} {median(times_ms):7.0f} "
            f"{max(times_ms):7.0f}",
            flush=True,
        )
        page.close()
    print(f"bar {BAR_OF_A_PAGE_MS:.0f} ms")


def main() -> None:
    if "--pages" in sys.argv:
        _, where, *names = sys.argv[sys.argv.index("--pages") :]
        with sync_playwright() as playwright:
            path = find_chromium(playwright)
            browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGUMENTS)
            pages(browser, Path(where), names)
            browser.close()
        return
    missed = []
    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        folder, state = Path(home, "notebooks"), Path(home, "state")
        folder.mkdir()
        state.mkdir()
        browser = playwright.chromium.launch(
            executable_path=find_chromium(playwright), args=CHROMIUM_ARGUMENTS
        )
        print(f"{'system':12} {'control':24} {'median':>8} {'worst':>8}   ms")
        with jupyterlab(folder, state) as server:
            lab = Lab(browser.new_page(viewport={"width": 1400, "height": 1000}), server)
            for system in sys.argv[1:] or EXPLORERS:
                notebook = next(ROOT.glob(f"notebooks/*_{system}.ipynb"))
                cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
                with lab.opened(notebook):
                    for number, cell in enumerate(cells):
                        lab.run_cell(number)
                        if "explore(explorer.draw" in "".join(cell["source"]):
                            break
                    lab.settled()
                    lab.page.evaluate(WATCH, ["keydown", "change"])
                    module = import_module(EXPLORERS[system])
                    for name, control in controls(module.Setting()).items():
                        times_ms = measured(lab, name, control)
                        if not times_ms:
                            print(f"{system:12} {name:24} no answer")
                            continue
                        middle = median(times_ms)
                        if middle > BAR_MS:
                            missed.append(f"{system}.{name}")
                        print(
                            f"{system:12} {name:24} {middle:8.0f} {max(times_ms):8.0f}", flush=True
                        )
        browser.close()
    print(f"bar {BAR_MS:.0f} ms", f"missed by {', '.join(missed)}" if missed else "met by all")


if __name__ == "__main__":
    main()
