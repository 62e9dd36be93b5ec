"""A frame is shown for a person, and stays the value that it is."""

from __future__ import annotations

import math

import polars as pl
import pytest
from IPython.core import getipython
from IPython.core.interactiveshell import InteractiveShell

from workbench.reproduction import tables


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((None, ""), (True, "yes"), (False, "no"), (7, "7"), (9999, "9999"), (12345, "12,345")),
        *((0.0, "0"), (1.23456, "1.23"), (0.000123456, "0.000123"), (99.96, "100")),
        *(
            (1234.6, "1,235"),
            (-98765.4, "-98,765"),
            (math.inf, "∞"),
            (math.nan, "nan"),
            (999.7, "1,000"),
            (1.23e12, "1.23e+12"),
            (-0.0, "0"),
        ),
        *(("a<b", "a<b"), ([1, 2.345], "1, 2.35")),
    ],
)
def test_values_are_written_for_a_person(value: object, text: str) -> None:
    assert tables.cell(value) == text


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("iteration_s", "iteration (s)"),
        ("edge_cloud_mbps", "edge cloud (Mbit/s)"),
        ("top1", "top1"),
        ("s", "s"),
        ("param_bytes", "param (bytes)"),
    ],
)
def test_heading_has_the_unit(column: str, text: str) -> None:
    assert tables.heading(column) == text


def test_long_frame_says_how_many_rows_it_leaves_out() -> None:
    text = tables.as_html(pl.DataFrame({"x": range(100)}))
    assert "… 80 of 100 rows" in text
    assert "<td>9</td>" in text
    assert "<td>10</td>" not in text


def test_notebook_shows_frames_so(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = InteractiveShell()  # type: ignore[no-untyped-call]
    monkeypatch.setattr(getipython, "get_ipython", lambda: shell)
    tables.format_frames()
    frame = pl.DataFrame({"plan": ["<ours>"], "iteration_s": [1.23456]})
    assert shell.display_formatter is not None
    data, _ = shell.display_formatter.format(frame)  # type: ignore[no-untyped-call]
    assert "iteration (s)" in data["text/html"]
    assert "<td>1.23</td>" in data["text/html"]
    assert "&lt;ours&gt;" in data["text/html"]
    assert "f64" not in data["text/html"]
