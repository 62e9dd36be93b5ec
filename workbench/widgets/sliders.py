"""Sliders and menus bound to one chart: the explorers of the notebooks.

The chart is a pure function of the controls' values, so it can be tested, timed and drawn
without a browser; `explorer` only connects it. Nothing here needs the network. A system's explorer
declares its controls as the fields of `workbench.parameters.Parameters`; see `controls`.
"""

from __future__ import annotations

import html
import inspect
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from workbench.parameters import Parameters, Value, annotated, declared
from workbench.utils.checks import UserError, check_name

if TYPE_CHECKING:
    import ipywidgets
    from altair.typing import ChartType

    from workbench.notebook import Drawing
    from workbench.widgets.live_chart import LiveChart

    Draw = Callable[..., ChartType]

SCALES: Final = ("linear", "log")

ROUND: Final = (
    1,
    1.1,
    1.2,
    1.3,
    1.5,
    1.6,
    1.8,
    2,
    2.2,
    2.5,
    2.8,
    3,
    3.5,
    4,
    4.5,
    5,
    5.5,
    6,
    7,
    8,
    9,
)
"""Where a logarithmic slider stops in each decade."""

_STEPS: Final = 100
_DESCRIPTION_WIDTH: Final = "14em"
_WIDTH: Final = "34em"
_STATUS: Final = (
    '<span role="status" style="color: var(--jp-ui-font-color2)">answered in {:.0f} ms</span>'
)


@dataclass(frozen=True)
class Slider:
    """A number between two bounds.

    Attributes
    ----------
    minimum, maximum, value
        Bounds, both reachable, and the first value: by default the minimum.
    unit
        Written behind the name: ``"Mbps"``.
    scale
        ``"linear"``, or ``"log"`` for ranges over orders of magnitude: it stops at its bounds, at
        its first value, and at `ROUND` numbers of each decade.
    step
        What an arrow key adds on a linear scale, by default a hundredth of the range, or 1 for
        integers; or multiplies integers by on a logarithmic one.
    integer
        Whether `draw` gets whole numbers (int), not floats.
    label
        The name on screen; by default the control's own, with spaces for underscores.
    """

    minimum: float
    maximum: float
    value: float = math.nan
    unit: str = ""
    scale: str = "linear"
    step: float | None = None
    integer: bool = False
    label: str | None = None

    def __post_init__(self) -> None:
        check_name("scale", self.scale, SCALES)
        if math.isnan(self.value):
            object.__setattr__(self, "value", self.minimum)
        numbers = {"minimum": self.minimum, "maximum": self.maximum, "value": self.value}
        for name, number in numbers.items():
            if not math.isfinite(number):
                raise UserError(f"slider's {name} is {number}, not a finite number")
            if self.integer and number != int(number):
                raise UserError(f"slider of integers has the {name} {number}")
        if not self.minimum < self.maximum:
            raise UserError(f"slider's minimum {self.minimum} is not below {self.maximum}")
        if not self.minimum <= self.value <= self.maximum:
            raise UserError(
                f"slider starts at {self.value}, outside {self.minimum} to {self.maximum}"
            )
        if self.scale == "log" and self.minimum <= 0:
            raise UserError(f"a logarithmic slider starts above 0, not at {self.minimum}")
        least = 1.0 if self.scale == "log" else 0.0
        if self.step is not None and not least < self.step < math.inf:
            raise UserError(f"a step on a {self.scale} scale is above {least:g}, not {self.step}")
        if self.integer and self.scale == "linear" and self.step not in (None, int(self.step or 0)):
            raise UserError(f"slider of integers has the step {self.step}")

    def read(self, raw: float) -> float:
        """The value that `draw` gets for the widget's: within bounds, an int where `integer`."""
        within = min(max(raw, self.minimum), self.maximum)
        # Converted through exponents, a number loses its last digits; 12 are left.
        return round(within) if self.integer else float(f"{within:.12g}")

    def stops(self) -> list[float]:
        """Values that a logarithmic slider can be moved to."""
        decades = range(math.floor(math.log10(self.minimum)), math.ceil(math.log10(self.maximum)))
        rounded = (float(f"{number}e{decade}") for decade in decades for number in ROUND)
        within = {number for number in rounded if self.minimum < number < self.maximum}
        return sorted(within | {self.minimum, self.value, self.maximum})

    def widget(self, name: str) -> ipywidgets.Widget:
        """Build the ipywidget."""
        import ipywidgets

        shown = self.label or name.replace("_", " ")
        description = f"{shown} ({self.unit})" if self.unit else shown
        layout = {"width": _WIDTH}
        style = {"description_width": _DESCRIPTION_WIDTH}
        if self.scale == "log" and not self.integer:
            return ipywidgets.SelectionSlider(
                options=[(f"{stop:,.10g}", stop) for stop in self.stops()],
                value=self.value,
                description=description,
                style=style,
                layout=layout,
            )
        low, high, start, step = self.minimum, self.maximum, self.value, self.step
        kind, readout = ipywidgets.FloatSlider, ".4r"
        if self.scale == "log":
            kind, readout = ipywidgets.FloatLogSlider, ".0f"
            low, high, start = map(math.log10, (low, high, start))
            step = step and math.log10(step)
        elif self.integer:
            kind, readout, step = ipywidgets.IntSlider, "d", step or 1
        step = step or (high - low) / _STEPS
        if kind is not ipywidgets.IntSlider:
            step = _divided_step(step, start - low)
        return kind(
            value=self.value,
            min=low,
            max=high,
            step=step,
            readout_format=readout,
            description=description,
            continuous_update=True,
            style=style,
            layout=layout,
        )


def _divided_step(step: float, distance: float) -> float:
    """Largest step up to `step` that divides the distance from the minimum to the first value.

    The browser moves a value between two steps onto the next one, unasked.
    """
    steps = math.ceil(round(distance / step, 9))
    return distance / steps if steps else step


@dataclass(frozen=True)
class Menu:
    """One of several names, shown in their order; at first `value`, or the first of them.

    `label` is as for `Slider`.
    """

    options: tuple[str, ...]
    value: str | None = None
    label: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", tuple(self.options))
        if not self.options:
            raise UserError("a menu needs at least one option")
        if len(set(self.options)) < len(self.options):
            raise UserError(f"a menu lists an option twice: {', '.join(self.options)}")
        if self.value is not None:
            check_name("menu option", self.value, self.options)

    def read(self, raw: str) -> str:
        """The widget's value."""
        return raw

    def widget(self, name: str) -> ipywidgets.Widget:
        """Build the ipywidget."""
        import ipywidgets

        return ipywidgets.Dropdown(
            options=self.options,
            value=self.value or self.options[0],
            description=self.label or name.replace("_", " "),
            style={"description_width": "10em"},
            layout={"width": "30em"},
        )


Control = Slider | Menu


@dataclass(frozen=True)
class Shared:
    """What the page of an explorer offers that `workbench share` writes.

    Attributes
    ----------
    title, about
        Above the controls: what is explored, and what the charts show.
    values
        Of each control that the page has, the values that it can be moved to; all others stay where
        the explorer's setting has them by default.
    """

    title: str
    about: str
    values: Mapping[str, Sequence[Value]]


Controls = Mapping[str, Control] | Parameters
"""Controls by name, or a setting that declares them: then `draw` gets another such setting."""


def controls(setting: Parameters) -> dict[str, Control]:
    """Return the controls that a setting's class declares, with the setting's values.

    A name is a `Menu` of its parameter's options, a number the `Slider` of its annotation, with
    unit and kind of the parameter and a range that includes the setting's value.
    """
    kinds, made = declared(type(setting)), dict[str, Control]()
    for name, (_, extras) in annotated(type(setting)).items():
        parameter, value = kinds[name], getattr(setting, name)
        slider = next((extra for extra in extras if isinstance(extra, Slider)), None)
        if parameter.options is not None:
            made[name] = Menu(tuple(parameter.options()), value)
        elif slider is not None:
            made[name] = replace(
                slider,
                minimum=min(slider.minimum, value),
                maximum=max(slider.maximum, value),
                value=value,
                unit=parameter.unit,
                integer=parameter.kind is int,
            )
        else:
            raise TypeError(f"{type(setting).__name__}.{name} has neither a Slider nor options")
    return made


def _by_name(draw: Draw, given: Controls) -> tuple[Draw, Mapping[str, Control]]:
    """Return a function of the controls' values that draws, and these controls."""
    if isinstance(given, Parameters):
        setting = type(given)
        return lambda **values: draw(setting(**values)), controls(given)
    if not given:
        raise UserError("an explorer needs at least one control")
    try:
        inspect.signature(draw).bind(**given)
    except TypeError as error:
        raise TypeError(
            f"controls {', '.join(given)} do not fit the drawing function "
            f"{getattr(draw, '__name__', draw)}{inspect.signature(draw)}: {error}"
        ) from error
    return draw, given


@dataclass(frozen=True)
class Explorer:
    """A chart that follows its controls; end a notebook cell with it to show it.

    Attributes
    ----------
    controls
        The ipywidgets by name, for setting values in code: ``.controls["workers"].value = 4``.
    chart
        The one chart, replaced whenever a control moves.
    status
        Below the chart: the milliseconds from control to new specification, or an error.
    widget
        All of them, laid out.
    picture
        Shown where no widget can be, as in an exported page; by default the chart as it is then.
    """

    controls: Mapping[str, ipywidgets.Widget]
    chart: LiveChart
    status: ipywidgets.HTML
    widget: ipywidgets.VBox
    picture: Drawing | None = None

    def _repr_mimebundle_(self, **options: Any) -> Any:
        from workbench.notebook import drawing

        text = "An explorer: run this cell to move its sliders."
        if not self.controls:
            text = "A chart: run this cell to see more where the pointer is."
        shown = self.picture
        if shown is None and self.chart.spec is not None:
            shown = drawing(self.chart.spec, text)
        return {
            **self.widget._repr_mimebundle_(**options),
            **(shown._repr_mimebundle_() if shown else {}),
            "text/plain": text,
        }


def explorer(draw: Draw, controls: Controls, picture: Drawing | None = None) -> Explorer:
    """Bind `draw` to controls: moving one draws the chart again.

    The chart follows while a slider moves. It cannot fall behind: JupyterLab holds a control's
    further messages back while the kernel answers one, and then sends only the latest value.
    A chart that cannot be drawn leaves the last one in place, and the error below it.

    Parameters
    ----------
    draw
        Makes the chart of the controls' values, passed by name, or of a setting.
    controls
        In the order shown: by the names of `draw`'s parameters, or a setting that declares them.
    picture
        See `Explorer`.
    """
    import ipywidgets
    from altair.utils.schemapi import debug_mode

    from workbench import figures
    from workbench.widgets.live_chart import LiveChart

    draw, controls = _by_name(draw, controls)
    figures.theme()
    widgets = {name: control.widget(name) for name, control in controls.items()}
    status = ipywidgets.HTML()
    chart = LiveChart()
    asked: dict[str, Any] = {}

    def update(_: object = None) -> None:
        values = {name: controls[name].read(widget.value) for name, widget in widgets.items()}
        if values == asked:  # a slider of integers moved by less than one
            return
        asked.update(values)
        first = chart.spec is None  # no answer: it also loads what all later ones use
        before_s = time.perf_counter()
        try:
            # altair checks every part of a chart as it is made, which takes most of the time:
            # once is enough.
            with debug_mode(first):
                chart.show(draw(**values))
        except Exception as error:  # shown to the reader of the notebook
            status.value = _error_text(error, first)
            return
        took_ms = (time.perf_counter() - before_s) * 1e3
        status.value = "" if first else _STATUS.format(took_ms)

    for widget in widgets.values():
        widget.observe(update, "value")
    update()
    panel = ipywidgets.Box(list(widgets.values()), layout={"flex_flow": "row wrap"})
    return Explorer(widgets, chart, status, ipywidgets.VBox([panel, chart, status]), picture)


def _error_text(error: Exception, first: bool) -> str:
    # A ValueError speaks to the user; anything else is a defect, and its type helps to report it.
    kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
    text = f"No chart: {kind}{str(error).rstrip('.')}."
    if not first:
        text += " Shown is the last that worked."
    return (
        '<span role="alert" style="color: var(--jp-error-color0, #b00020)">'
        f"{html.escape(text)}</span>"
    )
