"""Compare the stored frames of two results folders, bit for bit.

``python scripts/compare_results.py OLD NEW`` prints a line for every frame: the same, or which
columns differ in how many rows. Frames that hold timings of a machine differ from run to run. The
exit status is 1 if a frame differs that holds none.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

from workbench.results import TIMINGS


def differences(old: pl.DataFrame, new: pl.DataFrame) -> list[str]:
    """What differs, in words; columns that only one frame has are named, too."""
    found = [f"no column {name}" for name in old.columns if name not in new.columns]
    found += [f"new column {name}" for name in new.columns if name not in old.columns]
    if len(old) != len(new):
        return [*found, f"{len(old)} rows became {len(new)}"]
    for name in old.columns:
        if name in new.columns:
            unequal = (~old[name].eq_missing(new[name])).sum()
            if unequal:
                found.append(f"{name}: {unequal} of {len(old)} rows")
    return found


def main(old: Path, new: Path) -> int:
    """Print the comparison; 1 if a frame differs that holds no timings."""
    status = 0
    paths = {path.relative_to(root) for root in (old, new) for path in root.rglob("*.parquet")}
    for path in sorted(paths):
        if not (old / path).exists() or not (new / path).exists():
            print(f"{path}: only in {new if (new / path).exists() else old}")
            continue
        found = differences(pl.read_parquet(old / path), pl.read_parquet(new / path))
        timed = (new / path.parent / TIMINGS / f"{path.stem}.svg").exists()
        if found and not timed:
            status = 1
        what = "the same" if not found else "; ".join(found)
        print(f"{path}: {what}{' (timings of this machine)' if timed else ''}")
    return status


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:3])))
