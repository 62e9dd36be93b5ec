"""What the stored results say to each claim of the paper."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from workbench.claims import Cause, Table
from workbench.olpb.paper.answers import graphs, memory, scans

ANSWERS: Table = {**scans.ANSWERS, **graphs.ANSWERS, **memory.ANSWERS}
CAUSES: Mapping[str, Cause] = {**scans.CAUSES, **graphs.CAUSES, **memory.CAUSES}
"""Why claims are missed, by today's constants and PyTorch's operators."""


def at_paper_setting(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Rows of a figure at the setting that the paper's claims on it are about; none if not all."""
    return memory.at_paper_setting(name, scans.at_paper_setting(name, frame))
