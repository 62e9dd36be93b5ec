"""The papers' testbeds, as the papers state them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from workbench.names import check_name
from workbench.paths import DATA


def load_testbed(name: str, folder: Path = DATA / "testbeds") -> dict[str, Any]:
    """Read ``data/testbeds/NAME.toml``: facts of a paper's set-up, each with its source.

    Raises
    ------
    UnknownNameError
        No testbed of that name; the message lists those that exist.
    """
    check_name("testbed", name, sorted(path.stem for path in folder.glob("*.toml")))
    return tomllib.loads((folder / f"{name}.toml").read_text())
