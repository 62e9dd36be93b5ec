"""Packing of memory buffers beside omnimalloc's allocators, at equal time, in one run.

``python benchmarks/olpb_packing.py`` prints peaks as ratios to the bound (the most bytes alive at
once; 1 is perfect) and ends with status 1 if a bar is missed: networks at most 1.02 of the bound,
a first answer for 1,100 buffers within 50 ms, and on every hard family and size, on average over
its instances, a peak below that of each allocator. ``--seconds 10`` gives every search ten seconds
an instance instead of one; ``--folder DIR`` packs the files of MiniMalloc's format in a folder
(columns lower, upper, size), such as its eleven challenging instances. All use one thread.

omnimalloc is no dependency: ``pip install omnimalloc==1.0.0`` puts it beside, or it is left out.
The first answer is timed by the processor's clock, searches are limited by the wall's.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.memory.packing.instances import FAMILIES, deep_chain
from workbench.memory import packing, stored_dataflow
from workbench.memory.lifetimes import lifetimes

Allocator = Callable[[pl.DataFrame], Any]

NETWORKS = ("googlenet", "mobilenet_v2", "inception_v4", "resnet152")
CHAINS = (1100, 3000, 5000)  # buffers, three a layer
FAMILY_WITH_SLACK = "mixed"  # many reach the bound: being as good is enough
FIRST_ANSWER_MS, NETWORK_RATIO = 50, 1.02
SEARCHES = {
    "supermalloc": {"num_threads": 1},
    "telamalloc": {"max_backtracks": 10**9},
    "hill_climb": {"max_iterations": 10**9},
    "simulated_annealing": {"max_iterations": 10**9},
    "tabu_search": {"max_iterations": 10**9},
}
OTHERS = ("omni", "greedy_by_all", "greedy_by_area", "greedy_by_conflict_size", "best_fit")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--seconds", type=float, default=1.0, help="for each search")
    options.add_argument("--instances", type=int, default=2, help="of each family and size")
    options.add_argument("--sizes", type=int, nargs="+", default=(100, 300, 1000), help="buffers")
    options.add_argument("--folder", type=Path, help="of CSV files to pack instead")
    chosen = options.parse_args()
    allocators: dict[str, Allocator] = {
        name: partial(packing.pack, planner=name, time_limit_s=chosen.seconds)
        for name in ("workbench", "greedy_by_size", "best_fit")
    } | omnimalloc_allocators(chosen.seconds)
    if chosen.folder:
        files = sorted(chosen.folder.glob("*.csv"))
        sets = {path.stem: [pl.read_csv(path)] for path in files}
        return show(ratios(allocators, sets), {})
    sets = {
        f"{family} {size}": [
            make(size, np.random.default_rng([size, seed])) for seed in range(chosen.instances)
        ]
        for family, make in FAMILIES.items()
        for size in chosen.sizes
    }
    hard, bars = ratios(allocators, sets), networks()
    for name, row in hard.items():
        ours, best = row["workbench"], min(row[other] for other in row if other != "workbench")
        is_even = ours == best and (ours == 1 or name.startswith(FAMILY_WITH_SLACK))
        bars[f"{name}: {ours:.4f}, the best other {best:.4f}"] = ours < best or is_even
    return show(hard, bars)


def ratios(
    allocators: dict[str, Allocator], sets: dict[str, list[pl.DataFrame]]
) -> dict[str, dict[str, float]]:
    """Mean ratio to the bound of each set of buffers, by allocator."""
    return {
        name: {
            allocator: statistics.mean(ratio(table, allocate(table)) for table in tables)
            for allocator, allocate in allocators.items()
        }
        for name, tables in sets.items()
    }


def ratio(table: pl.DataFrame, offsets: Any) -> float:
    packing.check(table, offsets)
    return packing.peak(table, offsets) / packing.bound(table)


def show(rows: dict[str, dict[str, float]], bars: dict[str, bool]) -> int:
    """Print a row for each set of buffers, their mean, and the bars; return the exit status."""
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=200, float_precision=4):
        frame = pl.DataFrame([{"buffers": name} | row for name, row in rows.items()])
        print(frame, frame.select(pl.exclude("buffers").mean()), sep="\n")
    for bar, met in bars.items():
        print("met   " if met else "MISSED", bar)
    return 0 if all(bars.values()) else 1


def networks() -> dict[str, bool]:
    """Bars of training steps: ratios to the bound, and milliseconds to the first answer."""
    tables = {}
    for name in NETWORKS:
        flow = stored_dataflow(name, 1, training=True)
        tables[name] = lifetimes(flow, range(len(flow.steps))).items
    for count in CHAINS:
        tables[f"chain of {count} buffers"] = deep_chain(count // 3, np.random.default_rng(count))
    bars = {}
    for name, table in tables.items():
        found = ratio(table, packing.pack(table))
        bars[f"{name}: {found:.4f}, at most {NETWORK_RATIO}"] = found <= NETWORK_RATIO
        first_ms = statistics.median(first_answer_ms(table) for _ in range(5))
        if len(table) <= CHAINS[0]:
            bars[f"{name}: first answer in {first_ms:.1f} ms"] = first_ms <= FIRST_ANSWER_MS
    return bars


def first_answer_ms(table: pl.DataFrame) -> float:
    begin_s = process_time()
    packing.pack(table, time_limit_s=1e-9)
    return 1e3 * (process_time() - begin_s)


def omnimalloc_allocators(seconds: float) -> dict[str, Allocator]:
    """Searches and greedy allocators of omnimalloc; none if it is not installed."""
    try:
        import omnimalloc  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        print("omnimalloc is not installed: its allocators are left out")
        return {}
    omnimalloc.set_max_threads(1)
    registry = omnimalloc.allocators.BaseAllocator.registry()

    def allocate(allocator: Any, table: pl.DataFrame) -> Any:
        asked = [
            omnimalloc.Allocation(id=row, size=size, start=lower, end=upper)
            for row, (lower, upper, size) in enumerate(table.iter_rows())
        ]
        placed = {one.id: one.offset for one in allocator.allocate(tuple(asked))}
        return np.array([placed[row] for row in range(len(table))], np.int64)

    found = {name: registry[name](timeout=seconds, **given) for name, given in SEARCHES.items()}
    found |= {name: registry[name]() for name in OTHERS}
    return {f"omnimalloc {name}": partial(allocate, one) for name, one in found.items()}


if __name__ == "__main__":
    sys.exit(main())
