"""Write the tables of ARTIFACT.md: claims, each with command, minutes, rule and place; recordings.

Minutes of a recording are those it took, all its processes together; of a notebook those of the
run whose results are stored, or, where none is, those on the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from workbench import results
from workbench.claims import Claim, claims_of
from workbench.claims.rule import OTHER_TOLERANCE, POINTS, POINTS_BELOW_TEN, TOLERANCES
from workbench.experiments import recorded
from workbench.scorecard.one_claim import commands, figures_of, places, recording_of
from workbench.store.manifest import NAME as MANIFEST
from workbench.store.manifest import Manifest
from workbench.systems import SYSTEMS

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "ARTIFACT.md"
MARK = "<!-- The table below is written by scripts/artifact.py. -->\n"
HEADER = ("claims", "command", "minutes", "met", "shown in")
RECORDINGS = ("recording", "scale", "data", "seeds", "hours", "made at")


def rows() -> Iterator[tuple[str, ...]]:
    """Yield a row for the claims of each system that rest on the same figures and rule."""
    for system in SYSTEMS:
        alike: dict[tuple[str, ...], list[str]] = {}
        for name, claim in claims_of(system).items():
            if claim.check != "input":
                made = tuple(commands(name))
                key = ("; ".join(f"`{c}`" for c in made), met(claim), "; ".join(places(name)))
                alike.setdefault(key, []).append(name)
        for (command, rule, place), names in alike.items():
            yield named(names), command, minutes(system, names[0]), rule, place


def named(names: list[str]) -> str:
    """Name claims: up to two of them, or what their ids have in common, with their number."""
    if len(names) <= 2:
        return ", ".join(f"`{name}`" for name in names)
    parts = zip(*(name.split(".") for name in names), strict=False)
    common = ".".join(one[0] if len(set(one)) == 1 else "*" for one in parts)
    return f"`{common}` ({len(names)})"


def met(claim: Claim) -> str:
    """Say when a claim is met; `workbench.claims.verdict` has the rule in full."""
    match claim.check:
        case "near":
            share = f"within {TOLERANCES.get(claim.unit, OTHER_TOLERANCE):.0%}"
            if claim.unit in ("percent", "percentage points"):
                share += f" or {POINTS:g} points ({POINTS_BELOW_TEN:g} below 10 %)"
            return share
        case "order":
            return "the order holds"
    return {"at_most": "no more", "at_least": "no less", "range": "in the range"}[claim.check]


def minutes(system: str, claim: str) -> str:
    """Return the minutes of the recordings behind a claim, or of its system's stored run."""
    if any(command.startswith("workbench record") for command in commands(claim)):
        bases = {base.id: base for figure in figures_of(claim) for base in figure.bases}
        made = [found for base in bases.values() if (found := recording_of(system, base))]
        return f"{sum(one.manifest.seconds for one in made) / 60:.0f}" if made else "hours"
    stored = results.manifest(results.default_folder(), system)
    return f"{stored.seconds / 60:.1f}" if stored else ""


def recordings() -> Iterator[tuple[str, ...]]:
    """Yield a row for each recording: what it is of, and which commits make it."""
    for path in sorted(recorded.FOLDER.glob(f"*/*/{MANIFEST}")):
        made = Manifest.read(path.parent)
        revisions = [made.revision if made.dirty is False else None, made.extended_at]
        hours = made.seconds / 3600
        yield (
            f"{made.system} {made.of}",
            made.scale or "",
            ", ".join(made.data),
            ", ".join(map(str, made.seeds)) if made.learns else "",
            f"{hours:.2f}" if hours >= 0.01 else "< 0.01",
            ", ".join(f"`{one[:8]}`" for one in revisions if one) or "no commit",
        )


def page() -> str:
    """Return the page with fresh tables."""
    text, claims, _ = PAGE.read_text().split(MARK)
    table, _, between = claims.strip().partition("\n\n")
    known = {cells[0]: cells[2] for cells in (line[2:].split(" | ") for line in table.split("\n"))}
    right = {"minutes", "hours"}
    tables = []
    fresh = ((name, by, took or known.get(name, ""), *rest) for name, by, took, *rest in rows())
    for header, lines in ((HEADER, fresh), (RECORDINGS, recordings())):
        ruler = tuple("--:" if name in right else "---" for name in header)
        tables.append("\n".join(f"| {' | '.join(line)} |" for line in (header, ruler, *lines)))
    return f"{text}{MARK}\n{tables[0]}\n\n{between.strip()}\n\n{MARK}\n{tables[1]}\n"


def main() -> None:
    """Replace the tables."""
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
