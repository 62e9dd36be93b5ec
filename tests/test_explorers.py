"""Every system's explorer: a pure function of its setting, valid at every end of its controls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, replace
from importlib import import_module
from types import ModuleType
from typing import Any

import altair as alt
import pytest

from workbench import figures
from workbench.dynacomm import explorer as dynacomm
from workbench.reproduction import systems
from workbench.utils.checks import UnknownNameError
from workbench.widgets import Control, Menu, Slider, controls
from workbench.widgets.live_chart import split

SAID = {
    "dynacomm": "MG-WFBP",
    "hiertrain": "JointDNN+",
    "edgegossip": "EdgeGossip",
    "dlion": "without exchange",
    "olpb": "BPPSA",
}

every_explorer = pytest.mark.parametrize("system", systems.TITLES)


def explorer(system: str) -> ModuleType:
    return import_module(f"workbench.{system}.explorer")


def settings(control: Control) -> list[Any]:
    """The values to try: all of a menu, the ends of a slider."""
    if isinstance(control, Menu):
        return list(control.options)
    return [control.stops()[0], control.stops()[-1]]


def controls_of(system: str) -> dict[str, Control]:
    return controls(explorer(system).Setting())


@every_explorer
def test_it_fits_both_columns(system: str) -> None:
    chart = explorer(system).draw(explorer(system).Setting())
    for column in figures.COLUMNS:
        svg = figures.svg(chart, column)
        assert SAID[system] in svg
        assert "cost model" in svg


@every_explorer
def test_charts_at_every_end_of_a_control_differ_and_are_valid_and_alike(system: str) -> None:
    """Vega-Lite's schema takes each, a phase keeps its colour, a percentage ends at 100."""
    draw, setting = explorer(system).draw, explorer(system).Setting()
    first = draw(setting)
    colours: dict[tuple[str, str], str] = {}
    valid: set[str] = set()
    for name, control in controls(setting).items():
        charts = [draw(replace(setting, **{name: value})) for value in settings(control)]
        assert any(drawn != first for drawn in charts), name
        for drawn in charts:
            assert drawn.pop("config") is figures.CONFIG
            template = json.dumps(split(drawn)[0])
            if template not in valid:  # which differ by rows and numbers alone
                alt.VConcatChart.from_dict(drawn, validate=True)
                valid.add(template)
            for field, scale in scales(drawn, "color"):
                for category, colour in zip(scale["domain"], scale["range"], strict=False):
                    assert colours.setdefault((field, category), colour) == colour
            for field, scale in [*scales(drawn, "x"), *scales(drawn, "y")]:
                assert field != "percent" or scale["domain"] == [0, 100]
    assert colours or system == "olpb"  # whose colours are of the planner's own


def scales(node: Any, channel: str) -> Iterator[tuple[str, Any]]:
    """Fields of a channel with the scale that a specification gives them."""
    for value in node.values() if isinstance(node, dict) else node:
        if isinstance(value, dict | list):
            yield from scales(value, channel)
    encoded = node.get(channel) if isinstance(node, dict) else None
    if isinstance(encoded, dict) and "domain" in (encoded.get("scale") or {}):
        scale = encoded["scale"]
        if channel != "color" or "range" in scale:
            yield encoded.get("field", ""), scale


@every_explorer
def test_controls_stand_where_the_setting_does(system: str) -> None:
    last = {name: settings(control)[-1] for name, control in controls_of(system).items()}
    assert set(last) == {field.name for field in fields(explorer(system).Setting)}
    stands = {name: one.value for name, one in controls(explorer(system).Setting(**last)).items()}
    assert stands == last


@every_explorer
def test_names_of_controls_have_room(system: str) -> None:
    for name, control in controls_of(system).items():
        assert len(control.widget(name).description) <= 28  # in 14 em


@every_explorer
def test_a_slider_reaches_as_far_as_the_setting(system: str) -> None:
    name = "edge_cloud_mbps" if system == "hiertrain" else "bandwidth_mbps"
    slider = controls(explorer(system).Setting(**{name: 100_000.0}))[name]
    assert isinstance(slider, Slider)
    assert (slider.value, slider.maximum, slider.unit) == (100_000.0, 100_000.0, "Mbit/s")


@every_explorer
def test_what_cannot_be_set_is_refused(system: str) -> None:
    setting = explorer(system).Setting
    for name, control in controls_of(system).items():
        if isinstance(control, Slider):
            with pytest.raises(ValueError, match=f"{name}=-1: must be"):
                setting(**{name: -1})
        else:
            with pytest.raises(UnknownNameError, match=f"Did you mean '{control.value}'"):
                setting(**{name: f"{control.value}x"})


def test_a_planner_of_ones_own_is_on_the_menu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(dynacomm.PLANNERS, "halves", dynacomm.PLANNERS["sequential"])  # type: ignore[attr-defined]
    setting = dynacomm.Setting(planner="halves")
    assert "halves" in settings(controls(setting)["planner"])
    assert "ResNet-152, halves" in json.dumps(dynacomm.draw(setting))
