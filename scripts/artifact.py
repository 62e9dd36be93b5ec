"""Write the table of ARTIFACT.md: claims, the command that makes them, minutes, tolerance, place.

Minutes of a recording are those it took, all its processes together; of a notebook those of the
run whose results are stored, so `make reproduce` comes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from workbench import results
from workbench.claims import Claim, claims_of
from workbench.claims.rule import OTHER_TOLERANCE, POINTS, POINTS_BELOW_TEN, TOLERANCES
from workbench.experiments import recorded
from workbench.scorecard.one_claim import commands, figures_of, places
from workbench.systems import SYSTEMS

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "ARTIFACT.md"
MARK = "<!-- The table below is written by scripts/artifact.py. -->\n"
HEADER = ("claims", "command", "minutes", "met", "shown in")


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
        ids = {(figure.of or figure).id for figure in figures_of(claim)}
        made = [found for name in sorted(ids) if (found := recorded.load(system, name))]
        return f"{sum(one.manifest.seconds for one in made) / 60:.0f}" if made else "hours"
    stored = results.manifest(results.default_folder(), system)
    return f"{stored.seconds / 60:.1f}" if stored else ""


def main() -> None:
    """Replace the table."""
    text, mark, _ = PAGE.read_text().partition(MARK)
    lines = [HEADER, ("---", "---", "--:", "---", "---"), *rows()]
    PAGE.write_text(
        text + mark + "\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
    )


if __name__ == "__main__":
    main()
