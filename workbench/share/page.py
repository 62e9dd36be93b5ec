"""One page of HTML with an explorer in it: its charts of all settings, and what moves them."""

from __future__ import annotations

import base64
import html
import itertools
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from string import Template

import workbench
from workbench.reproduction.parameters import Value
from workbench.reproduction.provenance import revision
from workbench.share.explorers import Described
from workbench.share.payload import Split, payload
from workbench.utils import files
from workbench.utils.checks import UserError
from workbench.utils.numbers import bytes_as_text
from workbench.utils.parallel import as_finished
from workbench.widgets import Menu, Slider, controls
from workbench.widgets.sliders import Control

MOST_BYTES = 2_000_000
_CHUNK = 64
"""Charts that one call of another process draws."""


def render(
    explorer: Described,
    values: Mapping[str, Sequence[Value]],
    made_by: str,
    processes: int | None,
    progress: Callable[[int, int], object] | None,
) -> str:
    """Return a page with an explorer's charts of every combination of `values`.

    `made_by` is the command that makes it; a page larger than `MOST_BYTES` is a UserError.
    """
    moved = {name: several for name, several in values.items() if len(several) > 1}
    settings = [
        {**{name: one[0] for name, one in values.items()}, **dict(zip(moved, point, strict=True))}
        for point in itertools.product(*moved.values())
    ]
    chunks = [settings[at : at + _CHUNK] for at in range(0, len(settings), _CHUNK)]
    calls = [(explorer, chunk) for chunk in chunks]
    drawn: dict[int, list[Split]] = {}
    for at, several in as_finished(_drawn, calls, processes):
        drawn[at] = several
        if progress is not None:
            progress(sum(map(len, drawn.values())), len(settings))
    charts = [chart for at in range(len(chunks)) for chart in drawn[at]]

    from workbench.widgets.live_chart import bundle

    setting, shared = explorer.setting(), explorer.shared
    made = controls(setting)
    written = payload(charts) | {
        "controls": [
            {"name": name, "shown": [_shown(value, made[name]) for value in several]}
            for name, several in moved.items()
        ]
    }
    text = Template(_beside("page.html")).substitute(
        title=html.escape(shared.title),
        about=html.escape(shared.about),
        generator=f"workbench {workbench.__version__}",
        controls="\n".join(
            _control(name, several, made[name], getattr(setting, name))
            for name, several in moved.items()
        ),
        facts=_facts(values, made, len(settings), made_by),
        points=_packed(json.dumps(written, ensure_ascii=False, separators=(",", ":"))),
        code=_packed(bundle(_beside("page.js"))),
    )
    if (size := len(text.encode())) > MOST_BYTES:
        raise UserError(
            f"the page would have {bytes_as_text(size, up=True)}, and {len(settings):,} settings; "
            f"at most {bytes_as_text(MOST_BYTES)} are meant to be sent around: give fewer values"
        )
    return text


def _drawn(explorer: Described, points: Sequence[Mapping[str, Value]]) -> list[Split]:
    from altair.utils.schemapi import debug_mode

    from workbench import figures
    from workbench.widgets.live_chart import parts

    figures.theme()
    with debug_mode(False):  # an explorer's charts are checked by its own tests
        return [parts(explorer.draw(explorer.setting(**point))) for point in points]


def _control(name: str, values: Sequence[Value], control: Control, first: Value) -> str:
    label = f'<label for="{name}">{html.escape(control.label or name.replace("_", " "))}</label>'
    at = values.index(first) if first in values else 0
    if isinstance(control, Menu):
        options = "".join(
            f"<option{' selected' * (place == at)}>{html.escape(str(value))}</option>"
            for place, value in enumerate(values)
        )
        return f'<div class="control">{label}<select id="{name}">{options}</select></div>'
    shown = html.escape(_shown(values[at], control))
    return (
        f'<div class="control">{label}<output for="{name}">{shown}</output>'
        f'<input type="range" id="{name}" min="0" max="{len(values) - 1}" step="1" value="{at}"'
        f' aria-valuetext="{shown}"></div>'
    )


def _shown(value: Value, control: Control) -> str:
    number = value if isinstance(value, str) else f"{value:,.6g}" if value < 1e5 else f"{value:,}"
    unit = f" {control.unit}" if isinstance(control, Slider) and control.unit else ""
    return f"{number}{unit}"


def _facts(
    values: Mapping[str, Sequence[Value]],
    made: Mapping[str, Control],
    count: int,
    made_by: str,
) -> str:
    head, changed = revision(files.ROOT, "docs", "notebooks", "tests")
    of = f", revision {head[:12]}{' with changes' * bool(changed)}" if head else ""
    fixed = {
        made[name].label or name.replace("_", " "): _shown(several[0], made[name])
        for name, several in values.items()
        if len(several) == 1
    }
    facts = {
        "Fixed": html.escape(", ".join(f"{name} {value}" for name, value in fixed.items())),
        "Computed": f"by Python at each of the {count:,} settings; nothing here is interpolated",
        "Version": f"workbench {workbench.__version__}{of}",
        "Make it again": f"<code>{html.escape(made_by)}</code>",
    }
    return "\n".join(f"<dt>{name}</dt><dd>{fact}</dd>" for name, fact in facts.items() if fact)


def _packed(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _beside(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
