"""A chart in JupyterLab that follows sliders: what stays of a drawing is sent and compiled once.

A specification is split into a template and what sliders change: rows of data, titles of views and
ends of axes. While the template stays the same, the browser puts other values into the drawing as
it stands; drawing it from the beginning takes several times as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from workbench.figures import headed, width_px, with_data

if TYPE_CHECKING:
    from altair.typing import ChartType

ROW = "row_number"
_DISCRETE = ("nominal", "ordinal")
_VIEW_KEYS = frozenset({"mark", "layer", "hconcat", "vconcat", "concat", "facet", "spec"})


class LiveChart(anywidget.AnyWidget):
    """A chart shown by the Vega that vl-convert brings, so without a network.

    Attributes
    ----------
    spec
        The whole Vega-Lite specification of what is shown; None before the first chart.
    """

    template = traitlets.Dict(allow_none=True, default_value=None).tag(sync=True)
    values = traitlets.Dict().tag(sync=True)

    def __init__(self) -> None:
        super().__init__(_esm=bundle())
        self.spec: dict[str, Any] | None = None

    def show(self, chart: ChartType | Mapping[str, Any]) -> None:
        """Show another chart, from altair or as a Vega-Lite specification.

        Altair's schema is not checked here, which takes as long as all else; tests do it. Raises
        TypeError for anything else.
        """
        if isinstance(chart, Mapping):
            spec = dict(chart)
        elif hasattr(chart, "to_dict"):
            spec = chart.to_dict(validate=False)
        else:
            raise TypeError(f"{chart!r} was drawn; give an altair chart")
        template, data, signals = parts(spec)
        self.spec = spec
        with self.hold_sync():
            self.template = template
            self.values = {"data": data, "signals": signals}


@cache
def bundle(further: str = "") -> str:
    """Return a JavaScript module that draws charts, all of Vega in it, with `further` source."""
    import vl_convert

    source = Path(__file__).with_suffix(".js").read_text(encoding="utf-8") + further
    module: str = vl_convert.javascript_bundle(source)
    return module


def parts(spec: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Split a specification as it is shown: with its data, and titles that fit the column."""
    return split(headed(with_data(spec), width_px()))


def split(spec: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Split a specification into a template, its data sets by name, and its signals by name.

    A signal is the title of a view, or an end of an axis; the template refers to it by name. Data
    sets are named in the order in which views use them, not by what they hold. Where categories
    stand as their rows do, rows are numbered: in a drawing that stands, Vega would put categories
    that come behind those that were there.
    """
    template = _Template(spec.get("datasets", {}))
    return template.of(spec), template.data(), template.signals


class _Template:
    """Names for what is taken out of a specification: data sets and signals."""

    def __init__(self, datasets: Mapping[str, list[dict[str, Any]]]) -> None:
        self.datasets = datasets
        self.names: dict[str, str] = {}  # of data sets, by their old names
        self.signals: dict[str, Any] = {}
        self.numbers_rows = False

    def of(self, node: Any, axes: dict[Any, list[Any]] | None = None) -> Any:
        """Return part of a specification without values; `axes` are those of a layered view."""
        if isinstance(node, list):
            return [self.of(child, axes) for child in node]
        if not isinstance(node, Mapping):
            return node
        if "layer" in node:
            axes = {}
        part = {key: self.of(child, axes) for key, child in node.items() if key != "datasets"}
        source = part.get("data")
        if isinstance(source, Mapping) and source.get("name") in self.datasets:
            name = self.names.setdefault(source["name"], f"rows_{len(self.names)}")
            part["data"] = {**source, "name": name}
        if part.get("title") and not _VIEW_KEYS.isdisjoint(part):
            title = part["title"]
            title = title if isinstance(title, Mapping) else {"text": title}
            part["title"] = {
                key: self._signal(text) if key in ("text", "subtitle") else text
                for key, text in title.items()
            }
        if part.get("type") in _DISCRETE and part.get("sort", "ascending") is None:
            part["sort"] = {"field": ROW, "op": "min"}
            self.numbers_rows = True
        scale = part.get("scale")
        domain = scale.get("domain") if isinstance(scale, Mapping) else None
        if isinstance(domain, list) and all(isinstance(end, int | float) for end in domain):
            part["scale"] = {**part["scale"], "domain": self._ends(part, domain, axes)}
        return part

    def data(self) -> dict[str, list[dict[str, Any]]]:
        """Return the data sets by their new names."""
        data = {name: self.datasets[old] for old, name in self.names.items()}
        if not self.numbers_rows:
            return data
        return {
            name: [{**row, ROW: number} for number, row in enumerate(rows)]
            for name, rows in data.items()
        }

    def _ends(
        self, channel: Mapping[str, Any], domain: list[float], axes: dict[Any, list[Any]] | None
    ) -> list[Any]:
        # Vega-Lite joins an axis of several layers by what it is called, not by what it is.
        known = {} if axes is None else axes
        key = (channel.get("field"), *domain)
        if key not in known:
            known[key] = [self._signal(end) for end in domain]
        return known[key]

    def _signal(self, value: Any) -> dict[str, str]:
        name = f"signal_{len(self.signals)}"
        self.signals[name] = value
        return {"expr": name}
