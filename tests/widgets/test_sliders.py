import base64
import math
import re
from dataclasses import dataclass
from typing import Annotated, Any

import altair as alt
import nbformat
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbconvert import exporters

from tests.refusals import refusals
from workbench.reproduction.notebook import drawing
from workbench.reproduction.parameters import Parameter, Parameters
from workbench.widgets import Control, Menu, Slider, controls, explorer
from workbench.widgets.live_chart import LiveChart

CONTROLS: dict[str, Control] = {
    "bandwidth": Slider(1, 1000, 10, unit="Mbps", scale="log"),
    "workers": Slider(1, 8, 4, integer=True),
    "planner": Menu(("dynacomm", "sequential")),
}


HTML_EXPORTER: Any = exporters.HTMLExporter()  # type: ignore[no-untyped-call]


def draw(bandwidth: float, workers: int, planner: str) -> alt.Chart:
    if workers > 6:
        raise ValueError("the testbed has 6 workers")
    if workers == 6:
        raise KeyError("<spare>")
    data = pl.DataFrame({"s": [workers / bandwidth]})
    chart: alt.Chart = alt.Chart(data, title=planner).mark_bar().encode(x="s:Q")
    return chart


def dots(x: float) -> alt.Chart:
    chart: alt.Chart = alt.Chart(pl.DataFrame({"x": [x]})).mark_point().encode(x="x:Q")
    return chart


def shown(chart: LiveChart) -> tuple[str, float]:
    spec = chart.spec
    assert spec is not None
    ((row,),) = spec["datasets"].values()
    return spec["title"], row["s"]


def test_a_moved_control_draws_the_chart_again() -> None:
    app = explorer(draw, CONTROLS)
    assert shown(app.chart) == ("dynacomm", 0.4)
    assert app.status.value == ""  # the first drawing answers nobody
    app.controls["bandwidth"].value = 100.0
    assert shown(app.chart) == ("dynacomm", 0.04)
    app.controls["planner"].value = "sequential"
    assert shown(app.chart) == ("sequential", 0.04)
    assert "answered in" in app.status.value
    assert app.chart.spec is not None
    assert app.chart.spec["config"]["range"]["category"]  # drawn in the workbench's theme


def test_an_error_is_shown_and_the_last_chart_stays() -> None:
    app = explorer(draw, CONTROLS)
    app.controls["workers"].value = 8
    assert shown(app.chart) == ("dynacomm", 0.4)
    assert 'role="alert"' in app.status.value
    said = "No chart: the testbed has 6 workers. Shown is the last that worked."
    assert said in app.status.value
    app.controls["workers"].value = 6  # a defect, not a refusal: its type is told, and escaped
    assert "KeyError: &#x27;&lt;spare&gt;&#x27;." in app.status.value
    app.controls["workers"].value = 4  # back where the last chart was drawn: the error goes
    assert "answered in" in app.status.value


def test_a_first_chart_that_fails_leaves_the_explorer_usable() -> None:
    app = explorer(draw, {**CONTROLS, "workers": Slider(1, 8, 8, integer=True)})
    assert app.chart.spec is None
    text, svg = exported(app)
    assert svg == ""
    assert "run this cell" in text
    assert "the testbed has 6 workers" in app.status.value
    assert "Shown is" not in app.status.value
    app.controls["workers"].value = 1
    assert shown(app.chart) == ("dynacomm", 0.1)


def test_drawing_anything_but_a_chart_is_an_error() -> None:
    def sentence(x: float) -> Any:
        return f"no chart of {x}"

    assert "TypeError" in explorer(sentence, {"x": Slider(0, 1, 0)}).status.value


def test_widgets_are_laid_out_with_units_and_work_offline() -> None:
    app = explorer(draw, CONTROLS)
    panel, chart, status = app.widget.children
    names = [child.description for child in panel.children]
    assert names == ["bandwidth (Mbps)", "workers", "planner"]
    assert (chart, status) == (app.chart, app.status)
    assert all(child.continuous_update for child in panel.children[:2])
    assert "https://esm.sh" not in app.chart.get_state()["_esm"]


def exported(app: Any) -> tuple[str, str]:
    """What nbconvert makes of a notebook with this explorer alone: its text, its picture."""
    v4: Any = nbformat.v4
    output = v4.new_output("execute_result", data=app._repr_mimebundle_(), execution_count=1)
    cell = v4.new_code_cell("explorer(...)", outputs=[output], execution_count=1)
    page, _ = HTML_EXPORTER.from_notebook_node(v4.new_notebook(cells=[cell]))
    shown = re.search(r'<div class="jp-RenderedSVG[^>]*>\s*<img[^>]*;base64,([^"]*)"', str(page))
    return str(page), base64.b64decode(shown[1]).decode() if shown else ""


def test_an_exported_page_has_a_picture_in_its_place() -> None:
    app = explorer(draw, CONTROLS)
    app.controls["planner"].value = "sequential"
    text, svg = exported(app)
    assert ">sequential</text>" in svg
    assert "run this cell" not in text
    other = drawing(draw(1, 1, "another"), "another")
    assert ">another</text>" in exported(explorer(draw, CONTROLS, other))[1]


@dataclass(frozen=True, kw_only=True)
class Setting(Parameters):
    planner: Annotated[str, Parameter("who plans", options=lambda: ("dynacomm", "sequential"))]
    bandwidth_mbps: Annotated[float, Slider(1, 1000, scale="log", label="bandwidth")] = 10.0
    workers: Annotated[int, Slider(1, 8)] = 4


def draw_setting(setting: Setting) -> alt.Chart:
    return draw(setting.bandwidth_mbps, setting.workers, setting.planner)


def test_controls_follow_from_what_a_setting_declares() -> None:
    assert controls(Setting(planner="sequential", bandwidth_mbps=0.5, workers=20)) == {
        "planner": Menu(("dynacomm", "sequential"), "sequential"),
        "bandwidth_mbps": Slider(0.5, 1000, 0.5, "Mbit/s", scale="log", label="bandwidth"),
        "workers": Slider(1, 20, 20, integer=True),
    }


def test_an_explorer_of_a_setting_draws_settings() -> None:
    app = explorer(draw_setting, Setting(planner="dynacomm"))
    assert shown(app.chart) == ("dynacomm", 0.4)
    app.controls["workers"].value = 2
    assert shown(app.chart) == ("dynacomm", 0.2)
    app.controls["workers"].value = 8
    assert "the testbed has 6 workers" in app.status.value


def test_a_field_without_a_control_is_a_defect() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Bare(Parameters):
        seed: int = 1

    with pytest.raises(TypeError, match=r"Bare\.seed has neither a Slider nor options"):
        controls(Bare())


@pytest.mark.parametrize(
    ("slider", "stops"),
    [
        (Slider(1, 9, 3, integer=True, step=2), [1, 3, 5, 7, 9]),
        (Slider(1, 4, integer=True), [1, 2, 3, 4]),
        (Slider(1, 100, 32, scale="log", step=2, integer=True), [1, 2, 4, 8, 16, 32, 64, 100]),
        (Slider(0, 1, 0.33, step=0.1), [0, 0.1, 0.2, 0.3, 0.33, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]),
        (Slider(0.05, 0.11, 0.106756, scale="log"), [0.05, 0.055, 0.06, 0.07, 0.08, 0.09, 0.1]),
    ],
)
def test_a_slider_stops_at_round_numbers_its_bounds_and_its_value(
    slider: Slider, stops: list[float]
) -> None:
    widget: Any = slider.widget("batch_size")
    assert widget.description == "batch size"
    assert widget.value == slider.value
    labels, values = zip(*widget.options, strict=True)
    assert list(values) == sorted({*stops, slider.value, slider.maximum})
    assert [float(label) for label in labels] == list(values)
    assert {type(value) for value in values} == {int if slider.integer else float}


@given(low=st.floats(1e-3, 1e3), span=st.floats(1.5, 1e6), scale=st.sampled_from(["linear", "log"]))
def test_a_slider_has_few_enough_stops_to_move_through(low: float, span: float, scale: str) -> None:
    stops = Slider(low, low * span, scale=scale).stops()
    assert stops == sorted(set(stops))
    assert (stops[0], stops[-1]) == (low, low * span)
    assert 3 <= len(stops) <= 200


test_a_slider = refusals(
    Slider,
    {"minimum": 1, "maximum": 9, "value": 1},
    {
        "minimum": {"from 9 to 9 starts at 1": [9]},
        "maximum": {"give finite bounds": [math.nan, math.inf]},
        "value": {"from 1 to 9 starts at 0": [0]},
        "step": {"above 0, not 0": [0]},
        "scale": {"Did you mean 'log'": ["lgo"]},
    },
)
test_a_logarithmic_slider = refusals(
    Slider,
    {"minimum": 1, "maximum": 9, "value": 1, "scale": "log"},
    {
        "minimum": {"starts above 0, not at 0": [0]},
        "step": {"above 1, not 1": [1]},
    },
)
test_a_slider_of_integers = refusals(
    Slider,
    {"minimum": 1, "maximum": 9, "value": 1, "integer": True},
    {"maximum": {"of integers goes from 1 to 1.5": [1.5]}},
)
test_a_menu = refusals(
    Menu,
    {"options": ("dynacomm", "sequential")},
    {
        "options": {"at least one option": [()], "an option twice": [("a", "a")]},
        "value": {"Did you mean 'dynacomm'": ["dynacom"]},
    },
)


def test_controls_that_do_not_fit_the_drawing_function_are_an_error() -> None:
    with pytest.raises(ValueError, match="at least one control"):
        explorer(draw, {})
    assert "bandwith" in explorer(draw, {"bandwith": CONTROLS["bandwidth"]}).status.value


def test_answer_times_count_the_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    clock_s = [0.0]
    monkeypatch.setattr("workbench.widgets.sliders.time.perf_counter", lambda: clock_s[0])

    def slow(x: float) -> alt.Chart:
        clock_s[0] += 0.25
        return dots(x)

    controls = {"x": Slider(0, 1, 0.5)}
    app = explorer(slow, controls)
    app.controls["x"].value = 1.0
    assert "answered in 250 ms" in app.status.value
