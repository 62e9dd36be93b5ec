"""Titles of views: one line that says what is seen, and the setting in grey below it.

A chart's author gives a list, ``title=["Accuracy and time", "LeNet-5 on MNIST", "one seed"]``:
the first is the title, the others the setting. Lines break where the column at hand asks for it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any, Final

_TITLE_PX: Final = 5.9  # mean width of a character of 8 pt, bold
_SETTING_PX: Final = 4.9  # and of 7 pt
_LABELS_PX: Final = 90  # of an axis, left of a view's own title
_BESIDE: Final = ("hconcat", "concat")
_BELOW: Final = ("vconcat", "layer")


def headed(spec: Mapping[str, Any], width_px: float) -> dict[str, Any]:
    """Return a specification whose titles that are lists fit a picture `width_px` wide.

    The whole picture's begins at its left edge, those of views in it above their plots.
    """
    found = _headed(spec, width_px)
    if isinstance(spec.get("title"), list) and spec["title"]:
        found["title"]["frame"] = "bounds"
    return found


def _headed(spec: Mapping[str, Any], width_px: float) -> dict[str, Any]:
    found = dict(spec)
    title = found.get("title")
    if isinstance(title, list) and title:
        found["title"] = _heading(title, width_px)
    for kind in (*_BESIDE, *_BELOW):
        if kind in found:
            count = min(len(found[kind]), found.get("columns", len(found[kind])))
            share_px = width_px / count if kind in _BESIDE else width_px
            found[kind] = [_headed(one, share_px - _LABELS_PX) for one in found[kind]]
    return found


def _heading(lines: list[str], width_px: float) -> dict[str, Any]:
    first, *others = lines
    heading: dict[str, Any] = {"text": textwrap.wrap(first, int(width_px / _TITLE_PX))}
    if others:
        setting = "; ".join(others).replace("; (", " (")
        heading["subtitle"] = textwrap.wrap(setting, int(width_px / _SETTING_PX))
    return heading
