"""What the calibrated constants rest on: explanations weighed against each other."""

from __future__ import annotations

import altair as alt
import polars as pl

from workbench import figures
from workbench.dynacomm.paper import calibration
from workbench.dynacomm.paper.testbed import Constants, stated_testbed
from workbench.figures import parts
from workbench.reproduction.figure import Figure


def explanations() -> pl.DataFrame:
    """How far each explanation of the open constants is off, claim by claim.

    A row per explanation and claim: ``explanation, role`` (fitted on batch size 32, predicted at
    16), ``claim, error_points`` (ours minus the paper's).
    """
    testbeds = {name: stated_testbed(Constants.load(name)) for name in calibration.EXPLANATIONS}
    rows = [
        (name, role, claim, error)
        for name, testbed in testbeds.items()
        for role, batch_size in (("fitted", 32), ("predicted", 16))
        for claim, error in calibration.errors(testbed, batch_size).items()
    ]
    return pl.DataFrame(rows, schema=["explanation", "role", "claim", "error_points"], orient="row")


def explanation_errors(frame: pl.DataFrame) -> pl.DataFrame:
    """Mean absolute error in points of each explanation, fitted and predicted apart."""
    return frame.group_by("explanation", "role", maintain_order=True).agg(
        claims=pl.len(), mean_absolute_points=pl.col("error_points").abs().mean()
    )


def draw_explanations(frame: pl.DataFrame) -> alt.FacetChart:
    """Every claim's error under each explanation of the open constants."""
    drawn = frame.with_columns(pl.col("explanation").str.replace_all("_", " "))
    order = drawn["explanation"].unique(maintain_order=True).to_list()
    return (
        alt.Chart(drawn)
        .mark_tick(thickness=1.5)
        .encode(
            x=alt.X("error_points:Q", title="ours minus the paper's, percentage points"),
            y=alt.Y("explanation:N", sort=order, title=None),
            color=alt.Color("role:N", scale=alt.Scale(range=figures.PALETTE[:2]), legend=None),
        )
        .properties(height=90)
        .facet(
            column=alt.Column("role:N", title=None),
            spacing=parts.APART_PX,
            title=["How far each explanation is from the paper's numbers", "(cost model)"],
        )
    )


EXPLANATIONS = Figure(id="explanations", compute=explanations, chart=draw_explanations)
