"""Views below or beside each other, as one specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from workbench.figures.style import CONFIG

if TYPE_CHECKING:
    from altair.typing import ChartType

    View = ChartType | Mapping[str, Any]


def stacked(
    *views: View,
    title: Sequence[str] = (),
    how: Literal["vconcat", "hconcat"] = "vconcat",
    independent: Sequence[str] = ("color",),
    **properties: Any,
) -> dict[str, Any]:
    """Join views into one specification, drawn by the project's theme.

    As ``alt.vconcat`` does, but without its copies of every view, which take longer than the rest
    of an explorer's answer. Nothing is checked against altair's schema.

    Parameters
    ----------
    views
        From top to bottom, or from left to right: charts of altair, or what this returns.
    independent
        Channels whose scales and legends belong to each view alone.
    """
    datasets: dict[str, Any] = {}
    context = {"datasets": datasets, "top_level": False}
    joined = []
    for view in views:
        if isinstance(view, Mapping):
            datasets.update(view["datasets"])
            joined.append({key: one for key, one in view.items() if key not in _OF_THE_WHOLE})
        else:
            joined.append(view.to_dict(validate=False, context=context))
    return {
        how: joined,
        **({"title": list(title)} if title else {}),
        "resolve": {"scale": dict.fromkeys(independent, "independent")},
        **properties,
        "config": CONFIG,
        "datasets": datasets,
    }


_OF_THE_WHOLE = ("config", "datasets")
