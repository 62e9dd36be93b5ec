"""DynaComm's solver beside the paper's dynamic programme in plain NumPy, in one run.

``python benchmarks/dynacomm_planners.py`` prints milliseconds, ratios and fitted exponents, and
ends with status 1 if a bar is missed: L = 152 under 1 ms a direction, L = 2,000 under 0.5 s, at
least 20 times faster than the programme at L = 152.
"""

from __future__ import annotations

import statistics
import sys

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

from workbench.dynacomm import LayerCosts
from workbench.dynacomm.paper import planning_time
from workbench.dynacomm.paper.testbed import paper_testbed

SIZES = (19, 76, 152, 300, 600, 1000, 2000)
LARGEST_PROGRAMME = 1000  # O(L^3) time, O(L^2) memory: 2,000 layers would take minutes
OVERHEADS_S = (0.0, 0.1, 1.0, 10.0)


def main() -> int:
    generator, rows = np.random.default_rng(1), []
    for layers in SIZES:
        pull_s, forward_s, backward_s, push_s = generator.lognormal(size=(4, layers))
        # The search takes longest where it has to choose: the worst of several overheads.
        chains = [
            LayerCosts(pull_s, forward_s, backward_s, push_s, overhead_s)
            for overhead_s in OVERHEADS_S
        ]
        for direction in planning_time.DIRECTIONS:
            ours_ms = max(median_ms("dynacomm", direction, chain, repeats=21) for chain in chains)
            theirs_ms = None
            if layers <= LARGEST_PROGRAMME:
                theirs_ms = median_ms("paper_programme", direction, chains[2], repeats=3)
            rows.append((direction, layers, ours_ms, theirs_ms))
    frame = pl.DataFrame(
        rows, schema=["direction", "layers", "dynacomm", "paper_programme"], orient="row"
    )
    console = Console()
    console.print(table(frame))
    long = frame.unpivot(
        ["dynacomm", "paper_programme"],
        index=["direction", "layers"],
        variable_name="solver",
        value_name="median_ms",
    ).drop_nulls()
    for row in planning_time.slopes(long).iter_rows(named=True):
        of = f"{row['direction']}, {row['solver']}"
        console.print(f"log-log slope from 200 layers on, {of}: {row['exponent']:.2f}")
    resnet = paper_testbed().costs("resnet152", 32)
    for direction in planning_time.DIRECTIONS:
        ours_ms = median_ms("dynacomm", direction, resnet, repeats=21)
        theirs_ms = median_ms("paper_programme", direction, resnet, repeats=5)
        console.print(
            f"ResNet-152 on the paper's testbed, {direction}: {ours_ms:.3f} ms, "
            f"the programme {theirs_ms:.2f} ms, {theirs_ms / ours_ms:.0f} times"
        )
    return verdict(frame, console)


def median_ms(solver: str, direction: str, costs: LayerCosts, repeats: int) -> float:
    return 1e3 * statistics.median(planning_time.timed(solver, costs, direction, repeats))


def table(frame: pl.DataFrame) -> Table:
    shown = Table("direction", title="Milliseconds to plan, medians")
    for heading in ("layers", "ours, worst overhead", "the programme", "times faster"):
        shown.add_column(heading, justify="right")
    for direction, layers, ours_ms, theirs_ms in frame.iter_rows():
        theirs = ("-", "-")
        if theirs_ms is not None:
            theirs = (f"{theirs_ms:.2f}", f"{theirs_ms / ours_ms:.0f}")
        shown.add_row(direction, f"{layers}", f"{ours_ms:.3f}", *theirs)
    return shown


def verdict(frame: pl.DataFrame, console: Console) -> int:
    at_152, at_2000 = (frame.filter(pl.col("layers") == layers) for layers in (152, 2000))
    bars = {
        "152 layers under 1 ms": (at_152["dynacomm"] < 1).all(),
        "2,000 layers under 500 ms": (at_2000["dynacomm"] < 500).all(),
        "20 times faster than the programme at 152 layers": (
            at_152["paper_programme"] >= 20 * at_152["dynacomm"]
        ).all(),
    }
    for bar, met in bars.items():
        console.print(f"{'met   ' if met else 'MISSED'} {bar}")
    return 0 if all(bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
