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

Layered = dict[tuple[Any, ...], list[dict[str, str]]]
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
    from altair.utils._importers import vl_version_for_vl_convert

    source = Path(__file__).with_suffix(".js").read_text(encoding="utf-8") + further
    module: str = vl_convert.javascript_bundle(source, vl_version=vl_version_for_vl_convert())
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
    datasets = spec.get("datasets", {})
    names: dict[str, str] = {}
    signals: dict[str, Any] = {}
    by_row, sorts = {"field": ROW, "op": "min"}, list[dict[str, str]]()

    def named(value: Any) -> dict[str, str]:
        name = f"signal_{len(signals)}"
        signals[name] = value
        return {"expr": name}

    def ends_of(domain: list[Any], field: Any, layered: Layered | None) -> list[Any]:
        if layered is None:
            return [named(end) for end in domain]
        key = (field, *domain)
        if key not in layered:
            layered[key] = [named(end) for end in domain]
        return layered[key]

    def without_values(node: Any, layered: Layered | None = None) -> Any:
        if isinstance(node, list):
            return [without_values(one, layered) for one in node]
        if not isinstance(node, Mapping):
            return node
        if "layer" in node:
            # Vega-Lite joins an axis of several layers by what it is called, not by what it is.
            layered = {}
        found = {
            key: without_values(one, layered) for key, one in node.items() if key != "datasets"
        }
        source = found.get("data")
        if isinstance(source, Mapping) and source.get("name") in datasets:
            name = names.setdefault(source["name"], f"rows_{len(names)}")
            found["data"] = {**source, "name": name}
        if found.get("title") and not _VIEW_KEYS.isdisjoint(found):
            title = found["title"]
            title = title if isinstance(title, Mapping) else {"text": title}
            found["title"] = {
                key: named(one) if key in ("text", "subtitle") else one
                for key, one in title.items()
            }
        if "sort" in found and found["sort"] is None and found.get("type") in _DISCRETE:
            found["sort"] = by_row
            sorts.append(by_row)
        scale = found.get("scale")
        ends = scale.get("domain") if isinstance(scale, Mapping) else None
        if isinstance(ends, list) and all(isinstance(one, int | float) for one in ends):
            domain = ends_of(ends, found.get("field"), layered)
            found["scale"] = {**found["scale"], "domain": domain}
        return found

    template = without_values(spec)
    data = {name: datasets[old] for old, name in names.items()}
    if by_row in sorts:
        data = {
            name: [{**row, ROW: at} for at, row in enumerate(rows)] for name, rows in data.items()
        }
    return template, data, signals
