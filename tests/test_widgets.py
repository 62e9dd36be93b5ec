import base64
import math
import re
from dataclasses import dataclass
from typing import Annotated, Any

import altair as alt
import nbformat
import polars as pl
import pytest
from ipywidgets import Dropdown, FloatLogSlider, FloatSlider, IntSlider, SelectionSlider
from nbconvert import exporters

from tests.refusals import refusals
from workbench.notebook import drawing
from workbench.parameters import Parameter, Parameters
from workbench.widgets import Control, Menu, Slider, controls, explorer
from workbench.widgets.live_chart import LiveChart, split

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


def test_a_template_leaves_out_rows_titles_and_ends_of_axes() -> None:
    def spec(rows: list[int], title: str, end: float, color: str = "red") -> dict[str, Any]:
        frame = pl.DataFrame({"x": rows})
        chart = alt.Chart(frame, title=title).mark_point(color=color)
        chart = chart.encode(x=alt.X("x:Q", title="seconds").scale(domain=[0, end]))
        return dict((chart | chart).to_dict())

    template, data, signals = split(spec([1], "one", 2.0))
    assert split(spec([3, 4], "two", 5.0)) == (
        template,
        {"rows_0": [{"x": 3}, {"x": 4}]},
        {"signal_0": 0, "signal_1": 5.0, "signal_2": "two"}
        | {"signal_3": 0, "signal_4": 5.0, "signal_5": "two"},
    )
    assert data == {"rows_0": [{"x": 1}]}
    assert signals["signal_2"] == "one"
    assert split(spec([1], "one", 2.0, "blue"))[0] != template


def test_layers_that_share_an_axis_share_its_ends() -> None:
    """Vega-Lite takes ends of different names for the ends of different axes, and draws neither."""
    base = alt.Chart(pl.DataFrame({"x": [1.0], "y": [2.0]})).encode(
        alt.X("x:Q").scale(domain=[0, 100]), alt.Y("y:Q").scale(domain=[0, 100])
    )
    layered = (base.mark_bar() + base.mark_text()).to_dict()
    template, _, signals = split({"vconcat": [layered, layered]})
    assert list(signals.values()) == [0, 100] * 4  # of each view's x and y
    first, second = (view["layer"] for view in template["vconcat"])
    for channel in ("x", "y"):
        one, other = (layer["encoding"][channel]["scale"]["domain"] for layer in first)
        assert one == other
        assert one != second[0]["encoding"][channel]["scale"]["domain"]


def test_categories_that_stand_as_their_rows_are_sorted_by_their_number() -> None:
    def spec(*names: str) -> dict[str, Any]:
        bars = alt.Chart(pl.DataFrame({"name": names})).mark_bar()
        return dict(bars.encode(alt.Y("name:N", sort=None)).to_dict())

    template, data, _ = split(spec("b", "a"))
    assert split(spec("a", "c", "b"))[0] == template
    assert template["encoding"]["y"]["sort"] == {"field": "row_number", "op": "min"}
    (rows,) = data.values()
    assert rows == [{"name": "b", "row_number": 0}, {"name": "a", "row_number": 1}]


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


def test_a_move_within_the_same_integer_draws_nothing() -> None:
    calls = []

    def count(batch: int) -> alt.Chart:
        calls.append(batch)
        return dots(batch)

    app = explorer(count, {"batch": Slider(1, 256, 32, scale="log", integer=True)})
    app.controls["batch"].value = 32.2
    assert calls == [32]
    app.controls["batch"].value = 33.4
    assert calls == [32, 33]
    assert all(isinstance(batch, int) for batch in calls)


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
    ("control", "kind"),
    [
        (Slider(0.5, 2.5, 1), FloatSlider),
        (Slider(1, 9, 3, integer=True, step=2), IntSlider),
        (Slider(1, 256, 32, scale="log", step=2, integer=True), FloatLogSlider),
        (Menu(("a", "b"), "b"), Dropdown),
    ],
)
def test_controls_start_at_their_value_and_reach_their_bounds(control: Control, kind: Any) -> None:
    widget: Any = control.widget("batch_size")
    assert isinstance(widget, kind)
    assert widget.description == "batch size"
    assert control.read(widget.value) == control.value
    if isinstance(control, Slider):
        raw = (widget.min, widget.max)
        bounds = [10**end for end in raw] if control.scale == "log" else raw
        assert [control.read(end) for end in bounds] == [control.minimum, control.maximum]


@pytest.mark.parametrize(
    ("slider", "among"),
    [
        (Slider(1, 10_000, 210, scale="log"), [1, 10, 18, 20, 22, 50, 100, 210, 1000, 10_000]),
        (Slider(0.05, 7.7, 0.33, scale="log"), [0.05, 0.1, 0.2, 0.33, 0.5, 1, 2, 5, 7.7]),
        (Slider(100, 40_000, 106.756, scale="log"), [100, 106.756, 110, 200, 500, 40_000]),
    ],
)
def test_a_logarithmic_slider_stops_at_round_numbers(slider: Slider, among: list[float]) -> None:
    widget: Any = slider.widget("bandwidth")
    assert isinstance(widget, SelectionSlider)
    assert widget.value == slider.value
    labels, values = zip(*widget.options, strict=True)
    assert list(values) == sorted(set(values))
    assert {*among} <= {*values}
    assert [float(label.replace(",", "")) for label in labels] == list(values)
    others = {*values} - {slider.minimum, slider.value, slider.maximum}
    assert all(len(f"{value:e}".split("e")[0].rstrip("0.")) <= 3 for value in others)
    assert [slider.read(value) for value in values] == list(values)


test_a_slider = refusals(
    Slider,
    {"minimum": 1, "maximum": 9, "value": 1},
    {
        "minimum": {"minimum 9 is not below 9": [9]},
        "maximum": {"maximum is nan": [math.nan]},
        "value": {"starts at 0, outside 1 to 9": [0]},
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
    {"maximum": {"maximum 1.5": [1.5]}, "step": {"step 0.5": [0.5]}},
)
test_a_menu = refusals(
    Menu,
    {"options": ("dynacomm", "sequential")},
    {
        "options": {"at least one option": [()], "an option twice": [("a", "a")]},
        "value": {"Did you mean 'dynacomm'": ["dynacom"]},
    },
)


def test_controls_that_do_not_fit_the_drawing_function_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one control"):
        explorer(draw, {})
    with pytest.raises(TypeError, match="controls bandwith do not fit the drawing function draw"):
        explorer(draw, {"bandwith": CONTROLS["bandwidth"]})


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


@pytest.mark.parametrize(
    ("slider", "name"),
    [
        (Slider(1, 256, 32, scale="log", step=2, integer=True), "a factor"),
        (Slider(0, 100, 13.1, step=0.5), "linear off the grid"),
        (Slider(0, 100, 13.1, step=0.1), "linear"),
        (Slider(0, 1, 0), "at the minimum"),
    ],
)
def test_the_first_value_lies_on_a_step(slider: Slider, name: str) -> None:
    widget = slider.widget(name)
    value, low = slider.value, slider.minimum
    if slider.scale == "log":
        value, low = math.log10(value), math.log10(low)
    steps = (value - low) / widget.step
    assert steps == pytest.approx(round(steps), abs=1e-6)
    step = slider.step and (math.log10(slider.step) if slider.scale == "log" else slider.step)
    assert step is None or step / 2 < widget.step <= step * (1 + 1e-9)
