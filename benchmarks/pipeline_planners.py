"""The planner of pipelines beside trying all plans, in one run.

``python benchmarks/pipeline_planners.py`` prints processor seconds, ratios and durations of a step,
and ends with status 1 if a bar is missed: GPT-2 (49 layers) on 16 equal nodes and on 12 unlike ones
under 2 s, with and without limits of memory; on small models at least 10 times faster than all
plans timed one by one, and no plan slower than the fastest of all.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import combinations, permutations
from time import process_time

import numpy as np
from rich.console import Console
from rich.table import Table

from workbench.clusters import Link
from workbench.pipelines import PLANNERS, Plan, Problem, iteration
from workbench.pipelines.costs import fits
from workbench.pipelines.partitions import Partition, Search, Variant, variants
from workbench.pipelines.schedules import Recompute
from workbench.profiles import profile_model

LARGEST_S = 2.0
TIMES_FASTER = 10
BATCH = 32


def gpt2(flops_per_s: list[float], *, unlike_links: bool, memory_bytes: float | None) -> Problem:
    """GPT-2 over links of 940 Mbit/s, or of 100 Mbit/s to 10 Gbit/s."""
    profile, nodes = profile_model("gpt2"), len(flops_per_s)
    table, rng = profile.table, np.random.default_rng(1)
    columns = ("forward_flops", "backward_flops", "param_bytes", "output_bytes")
    forward, backward, weights, sent = (table[name].to_numpy().astype(float) for name in columns)
    speeds = np.array(flops_per_s)[:, None]
    rates = rng.uniform(8, 10, (nodes, nodes)) if unlike_links else np.full((nodes, nodes), 8.973)

    def needed(first: int, last: int, samples: int, in_flight: int, recompute: Recompute) -> float:
        values = float(sent[first - 1 : last].sum())
        inputs = sent[first - 2] if first > 1 else profile.sample_bytes
        kept = in_flight * inputs + values if recompute else in_flight * values
        return float(4 * weights[first - 1 : last].sum() + samples * kept)

    return Problem(
        forward_s=forward / speeds,
        backward_s=backward / speeds,
        update_s=np.zeros((nodes, len(table))),
        param_bytes=weights,
        output_bytes=sent,
        links={
            (a, b): Link(float(10 ** rates[a, b]), overhead_s=1e-3)
            for a, b in permutations(range(nodes), 2)
        },
        batch=BATCH,
        tied=profile.tied,
        memory_bytes=None if memory_bytes is None else np.full(nodes, memory_bytes),
        needed=None if memory_bytes is None else needed,
    )


def small(seed: int) -> Problem:
    """Six layers on four unlike nodes."""
    rng = np.random.default_rng(seed)
    forward_s = rng.lognormal(size=6) * rng.lognormal(size=(4, 1))
    return Problem(
        forward_s=forward_s,
        backward_s=2 * forward_s,
        update_s=0.1 * forward_s,
        param_bytes=rng.lognormal(size=6),
        output_bytes=rng.lognormal(size=6),
        links={pair: Link(float(rng.lognormal(3, 2))) for pair in permutations(range(4), 2)},
        batch=8,
    )


def all_plans(problem: Problem) -> Iterator[Plan]:
    """All plans of the planner's space, without looking at any twice."""
    search, nodes = Search(problem), range(problem.nodes)
    for count in range(1, min(problem.nodes, problem.layers) + 1):
        for cuts in combinations(range(1, problem.layers), count - 1):
            for owner in np.ndindex(*[count + 1] * problem.nodes):  # the stage of each node
                groups = tuple(tuple(n for n in nodes if owner[n] == s) for s in range(count))
                if all(groups):
                    for variant in variants(problem.batch):
                        partition = Partition((*cuts, problem.layers), groups)
                        yield from search.plans(partition, Variant(*variant))


def main() -> int:
    rng = np.random.default_rng(0)
    unlike = list(10 ** rng.uniform(12, 13.5, 12))
    cases = {
        "16 equal nodes": gpt2([9e12] * 16, unlike_links=False, memory_bytes=None),
        "16 equal nodes of 0.9 GB": gpt2([9e12] * 16, unlike_links=False, memory_bytes=0.9e9),
        "12 unlike nodes": gpt2(unlike, unlike_links=True, memory_bytes=None),
        "12 unlike nodes of 2 GB": gpt2(unlike, unlike_links=True, memory_bytes=2e9),
    }
    shown = Table("case", title=f"Planning a step of {BATCH} samples of GPT-2")
    for heading in ("seconds to plan", "stages", "nodes", "s a step"):
        shown.add_column(heading, justify="right")
    bars = {}
    for name, problem in cases.items():
        start_s = process_time()
        plan = PLANNERS["pipeline"](problem)
        took_s = process_time() - start_s
        step_s = f"{iteration(problem, plan).total_s:.4g}"
        shown.add_row(name, f"{took_s:.2f}", f"{len(plan.stages)}", f"{len(plan.nodes)}", step_s)
        bars[f"{name}: under {LARGEST_S:g} s, and fits"] = took_s < LARGEST_S and fits(
            problem, plan
        )
    beside = Table("seed", title="Six layers on four unlike nodes")
    for heading in ("ours, s", "all plans, s", "times faster", "ours, s a step", "the best, s"):
        beside.add_column(heading, justify="right")
    for seed in range(3):
        problem = small(seed)
        start_s = process_time()
        ours_s = iteration(problem, PLANNERS["pipeline"](problem)).total_s
        planned_s = process_time() - start_s
        start_s = process_time()
        best_s = min(iteration(problem, plan).total_s for plan in all_plans(problem))
        all_s = process_time() - start_s
        ratio = all_s / planned_s
        numbers = (
            f"{planned_s:.3f}",
            f"{all_s:.2f}",
            f"{ratio:.1f}",
            f"{ours_s:.6g}",
            f"{best_s:.6g}",
        )
        beside.add_row(f"{seed}", *numbers)
        bars[f"seed {seed}: {TIMES_FASTER} times faster than all plans"] = ratio >= TIMES_FASTER
        bars[f"seed {seed}: as good a plan"] = ours_s <= best_s * (1 + 1e-9)
    console = Console(width=110)
    console.print(shown, beside)
    for bar, met in bars.items():
        console.print(f"{'met   ' if met else 'MISSED'} {bar}")
    return 0 if all(bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
