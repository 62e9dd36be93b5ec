"""What each paper contradicts itself in, or cannot be met in, with the derivations; deviations."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from extensions import notebooks
from workbench import scorecard, systems
from workbench.claims import CAUSES, Cause
from workbench.scorecard import Row


def pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each system's page."""
    for notebook in notebooks.names():
        system = notebook.partition("_")[2]
        if system in systems.SYSTEMS:
            yield system, _page(system, notebook)


def _page(system: str, notebook: str) -> str:
    info = systems.SYSTEMS[system]
    lines = [f"# {info.title}: missed claims", ""]
    lines += [
        "By cause, with what a reader can check. The scorecard, with the claims that are met,"
    ]
    lines += [
        f"stands at the end of [the notebook](../notebooks/{notebook}.ipynb); what the verdicts"
    ]
    lines += ["mean, in [](../../explanation/scorecard.md).", ""]
    causes = _causes(system)
    for kind, meaning in CAUSES.items():
        groups = [(cause.why, rows) for cause, rows in causes.items() if cause.kind == kind]
        if groups:
            lines += [f"## {meaning.capitalize()}", ""]
        for sources, parts in groupby(groups, lambda group: _sources(group[1])):
            lines += [f"### {sources}", ""]
            for why, rows in parts:
                lines += [f"{why[0].upper()}{why[1:].removesuffix('.')}.", "", *_table(rows), ""]
    return "\n".join([*lines, "## Deviations", "", notebooks.section(notebook, "Deviations"), ""])


def _causes(system: str) -> dict[Cause, list[Row]]:
    """Missed claims by cause and reason; of what has not run here, those whose cause is known."""
    known = {
        claim: cause for figure in systems.judged(system) for claim, cause in figure.causes.items()
    }
    found: dict[Cause, list[Row]] = {}
    for row in scorecard.of_results(system=system).rows:
        cause = row.cause or (known.get(row.claim.id) if row.verdict == "not run" else None)
        if cause:
            found.setdefault(cause, []).append(row)
    return found


def _sources(rows: list[Row]) -> str:
    return ", ".join(dict.fromkeys(row.claim.source for row in rows))


def _table(rows: list[Row]) -> list[str]:
    lines = ["| claim | it says | paper | ours | verdict |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        cells = (f"`{row.name}`", row.claim.metric, row.paper_text, row.ours_text, row.verdict)
        lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"]
    return lines
