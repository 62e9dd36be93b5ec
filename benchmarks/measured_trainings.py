"""How far predicted and simulated seconds of an iteration are from those of real processes.

``python benchmarks/measured_trainings.py`` measures every case of `workbench.three_ways` once, in
random order. Status 1 if the simulation misses the goal, or if weights differ from its own where
they do not depend on the order of arrival. On a busy machine, ``chrt --rr 5`` before the command
keeps others from disturbing it. ``workbench record three_ways runs`` measures each ten times.
"""

from __future__ import annotations

import sys

import polars as pl

from workbench.three_ways import errors, recording


def main() -> int:
    """Measure, print a line for each case, and say whether the goal is met."""
    runs = recording.RUNS.frame("default")
    for row in runs.iter_rows(named=True):
        about = ", ".join(row[name] for name in errors.CASE)
        if row["reason"] is not None:
            print(f"FAILED {about}: {row['reason']}")
            continue
        off = (f"{row[name] / row['measured_s'] - 1:+.2%}" for name in errors.WAYS.values())
        print(
            f"{'void  ' if row['void'] else '      '} {about}: {1e3 * row['measured_s']:.1f} ms, "
            f"{', '.join(map(' '.join, zip(errors.WAYS, off, strict=True)))}; "
            f"{row['late']} of {row['deadlines']} late, steal {row['steal']:.1%}"
        )
    wrong = runs.filter(~pl.col("ordered"), pl.col("same_weights") == pl.lit(False))
    for row in wrong.iter_rows(named=True):
        print(f"MISSED weights differ: {', '.join(row[name] for name in errors.CASE)}")
    print(f"{errors.verdict(runs)}; all on one machine")
    return int(not wrong.is_empty() or not errors.goals(runs)["simulated"])


if __name__ == "__main__":
    sys.exit(main())
