"""What a claim is to us: given to the model, fitted on, or predicted."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path

from workbench import paths
from workbench.names import check_name

ROLES = {
    "fit": "used to calibrate constants",
    "predicted": "neither given nor calibrated on",
    "input": "given to the model",
}


def fitted_on(system: str, claims: Iterable[str], folder: Path | None = None) -> frozenset[str]:
    """Return the claims that a system's constants were calibrated on.

    Parameters
    ----------
    system
        Whose ``data/calibration/SYSTEM.toml`` to read; none means nothing was calibrated.
    claims
        The ids that exist.

    Raises
    ------
    UnknownNameError
        The file lists an id that no claim bears.
    """
    path = (folder or paths.DATA / "calibration") / f"{system}.toml"
    if not path.is_file():
        return frozenset()
    listed = tomllib.loads(path.read_text(encoding="utf-8")).get("fitted_on", [])
    known = list(claims)
    return frozenset(check_name(f"claim in {path.name}", one, known) for one in listed)
