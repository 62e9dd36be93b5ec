"""Sliders and menus bound to one chart: the explorers of the notebooks.

The chart is a pure function of the controls' values, so it can be tested, timed and drawn
without a browser; `explorer` only connects it. Nothing here needs the network. A system's explorer
declares its controls as the fields of `workbench.reproduction.parameters.Parameters`; see
`controls`.
"""

from __future__ import annotations

import html
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from workbench.reproduction.parameters import Parameters, Value, annotated, declared
from workbench.utils.checks import UserError, check_name

if TYPE_CHECKING:
    import ipywidgets
    from altair.typing import ChartType

    from workbench.reproduction.notebook import Drawing
    from workbench.widgets.live_chart import LiveChart

    Draw = Callable[..., ChartType]

# fmt: off
ROUND: Final = (
    1, 1.1, 1.2, 1.3, 1.5, 1.6, 1.8, 2, 2.2, 2.5, 2.8, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7, 8, 9,
)
# fmt: on
"""Where a logarithmic slider stops in each decade."""

_EPSILON: Final = 1e-9  # of a step, by which the last may miss the maximum
_STYLE: Final = {"style": {"description_width": "14em"}, "layout": {"width": "34em"}}


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
        ``"linear"``, or ``"log"`` for ranges over orders of magnitude.
    step
        What one stop adds on a linear scale, by default a hundredth of the range, or 1 for
        integers; or multiplies by on a logarithmic one, which stops at `ROUND` numbers of each
        decade by default.
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
        check_name("scale", self.scale, ("linear", "log"))
        if math.isnan(self.value):
            object.__setattr__(self, "value", self.minimum)
        low, first, high = self.minimum, self.value, self.maximum
        if not (-math.inf < low <= first <= high < math.inf and low < high):
            raise UserError(
                f"slider from {low} to {high} starts at {first}: give finite bounds, the lower "
                "first, and a value between them"
            )
        if self.integer and {low, first, high} != {int(low), int(first), int(high)}:
            raise UserError(f"slider of integers goes from {low} to {high} and starts at {first}")
        if self.scale == "log" and self.minimum <= 0:
            raise UserError(f"a logarithmic slider starts above 0, not at {self.minimum}")
        least = 1.0 if self.scale == "log" else 0.0
        if self.step is not None and not least < self.step < math.inf:
            raise UserError(f"a step on a {self.scale} scale is above {least:g}, not {self.step}")

    def stops(self) -> list[float]:
        """Values that the slider can be moved to, in order: also its bounds and first value."""
        low, high, step = self.minimum, self.maximum, self.step
        if self.scale == "linear":
            step = step or (math.ceil((high - low) / 1000) if self.integer else (high - low) / 100)
            steps = range(1, math.ceil((high - low) / step - _EPSILON))
            between = [low + number * step for number in steps]
        elif step is not None:
            powers = range(1, math.ceil(math.log(high / low, step) - _EPSILON))
            between = [low * step**power for power in powers]
        else:
            decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)))
            between = [float(f"{number}e{decade}") for decade in decades for number in ROUND]
        rounded = {float(f"{number:.12g}") for number in between}  # 0.3, not 0.30000000000000004
        stops = {low, self.value, high} | {number for number in rounded if low < number < high}
        return sorted({round(stop) if self.integer else float(stop) for stop in stops})

    def widget(self, name: str) -> ipywidgets.SelectionSlider:
        """Build the ipywidget."""
        import ipywidgets

        shown = self.label or name.replace("_", " ")
        return ipywidgets.SelectionSlider(
            options=[(f"{stop:,.10g}", stop) for stop in self.stops()],
            value=self.value,
            description=f"{shown} ({self.unit})" if self.unit else shown,
            **_STYLE,
        )


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

    def widget(self, name: str) -> ipywidgets.Dropdown:
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


def controls(setting: Parameters) -> dict[str, Control]:
    """Return the controls that a setting's class declares, with the setting's values.

    A name is a `Menu` of its parameter's options, a number the `Slider` of its annotation, with
    unit and kind of the parameter and a range that includes the setting's value.
    """
    parameters = declared(type(setting))
    made = dict[str, Control]()
    for name, (_, extras) in annotated(type(setting)).items():
        parameter, value = parameters[name], getattr(setting, name)
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
        from workbench.reproduction.notebook import drawing

        text = "An explorer: run this cell to move its sliders."
        picture = self.picture
        if picture is None and self.chart.spec is not None:
            picture = drawing(self.chart.spec, text)
        return {
            **self.widget._repr_mimebundle_(**options),
            **(picture._repr_mimebundle_() if picture else {}),
            "text/plain": text,
        }


def explorer(
    draw: Draw,
    controls_or_setting: Mapping[str, Control] | Parameters,
    picture: Drawing | None = None,
) -> Explorer:
    """Bind `draw` to controls: moving one draws the chart again.

    The chart follows while a slider moves. It cannot fall behind: JupyterLab holds a control's
    further messages back while the kernel answers one, and then sends only the latest value.
    A chart that cannot be drawn leaves the last one in place, and the error below it.

    Parameters
    ----------
    draw
        Makes the chart of the controls' values, passed by name, or of a setting.
    controls_or_setting
        Controls by the names of `draw`'s parameters, in the order shown; or a setting that declares
        them.
    picture
        See `Explorer`.
    """
    import ipywidgets
    from altair.utils.schemapi import debug_mode

    from workbench import figures
    from workbench.widgets.live_chart import LiveChart

    if isinstance(controls_or_setting, Parameters):
        setting = controls_or_setting
        return explorer(
            lambda **values: draw(replace(setting, **values)), controls(setting), picture
        )
    if not controls_or_setting:
        raise UserError("an explorer needs at least one control")
    figures.theme()
    widgets = {name: control.widget(name) for name, control in controls_or_setting.items()}
    status = ipywidgets.HTML()
    chart = LiveChart()

    def update(_: object = None) -> None:
        first = chart.spec is None  # no answer: it also loads what all later ones use
        before_s = time.perf_counter()
        try:
            # altair checks every part of a chart as it is made, which takes most of the time:
            # once is enough.
            with debug_mode(first):
                values = {name: widget.value for name, widget in widgets.items()}
                chart.show(draw(**values))
        except Exception as error:  # shown to the reader of the notebook
            status.value = _error_text(error, first)
            return
        took_ms = (time.perf_counter() - before_s) * 1e3
        status.value = "" if first else _status("status", f"answered in {took_ms:.0f} ms")

    for widget in widgets.values():
        widget.observe(update, "value")
    update()
    panel = ipywidgets.Box(list(widgets.values()), layout={"flex_flow": "row wrap"})
    return Explorer(widgets, chart, status, ipywidgets.VBox([panel, chart, status]), picture)


def _error_text(error: Exception, first: bool) -> str:
    # A ValueError speaks to the user; anything else is a defect, and its type helps to report it.
    kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
    text = f"No chart: {kind}{str(error).rstrip('.')}."
    return _status("alert", text if first else f"{text} Shown is the last that worked.")


def _status(role: str, text: str) -> str:
    colour = "error-color0, #b00020" if role == "alert" else "ui-font-color2"
    return f'<span role="{role}" style="color: var(--jp-{colour})">{html.escape(text)}</span>'
