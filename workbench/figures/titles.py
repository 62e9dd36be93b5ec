"""Titles whose lines break where the picture ends.

A chart's title may be a list, ``title=["Accuracy and time", "LeNet-5 on MNIST", "one seed"]``: the
first says what is seen, the others the setting, in grey below it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any, Final

# Mean widths of a character: of 8 pt bold, of 8 pt, and of 7 pt.
_TITLE_PX: Final = 5.9
_AXIS_PX: Final = 5.3
_SETTING_PX: Final = 4.9
_AXIS_LABELS_PX: Final = 90  # left of a view's own title
_CONCATENATIONS: Final = ("hconcat", "concat", "vconcat", "layer")


def headed(spec: Mapping[str, Any], width_px: float) -> dict[str, Any]:
    """Return a specification whose titles that are lists fit a picture `width_px` wide.

    The whole picture's title begins at its left edge, those of views above their plots.
    """
    whole = _headed(spec, width_px)
    if isinstance(spec.get("title"), list) and spec["title"]:
        whole["title"]["frame"] = "bounds"
    return whole


def _headed(spec: Mapping[str, Any], width_px: float) -> dict[str, Any]:
    view = dict(spec)
    title = view.get("title")
    if isinstance(title, list) and title:
        view["title"] = {"text": textwrap.wrap(title[0], int(width_px / _TITLE_PX))}
        if setting := _joined(title[1:]):
            view["title"]["subtitle"] = textwrap.wrap(setting, int(width_px / _SETTING_PX))
    for kind in _CONCATENATIONS:
        if kind in view:
            beside = len(view[kind]) if kind in ("hconcat", "concat") else 1
            room_px = width_px / min(beside, view.get("columns", beside)) - _AXIS_LABELS_PX
            view[kind] = [_headed(child, room_px) for child in view[kind]]
    return view


def break_axis_titles(view: Mapping[str, Any], width_px: float) -> dict[str, Any]:
    """Return a plot `width_px` wide whose horizontal axis has a title no wider than that."""
    view = dict(view)
    x = view.get("encoding", {}).get("x", {})
    if isinstance(x.get("title"), str):
        letters = max(int(width_px / _AXIS_PX), 1)
        lines = textwrap.wrap(x["title"], letters, break_long_words=False)
        title = lines if len(lines) > 1 else x["title"]
        view["encoding"] = {**view["encoding"], "x": {**x, "title": title}}
    if "layer" in view:
        view["layer"] = [break_axis_titles(layer, width_px) for layer in view["layer"]]
    return view


def caption(spec: Mapping[str, Any]) -> str:
    """Return a chart's title and setting as one sentence; without a title, those of its views."""
    title = spec.get("title") or ""
    if isinstance(title, Mapping):  # its lines are broken already
        parts = [title.get("text", ""), title.get("subtitle", "")]
        title = [part if isinstance(part, str) else " ".join(part) for part in parts]
    text = _joined([title] if isinstance(title, str) else title)
    if text:
        return text if text.endswith((".", "?", "!")) else f"{text}."
    views = [view for kind in _CONCATENATIONS for view in spec.get(kind, ())]
    views += [spec["spec"]] if "spec" in spec else []
    return " ".join(filter(None, map(caption, views)))


def _joined(parts: list[str]) -> str:
    return "; ".join(filter(None, parts)).replace("; (", " (")
