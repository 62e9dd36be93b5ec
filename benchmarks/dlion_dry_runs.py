"""What a predicted iteration of each of DLion's systems takes.

``python benchmarks/dlion_dry_runs.py``: Cipher on the six workers of Hetero SYS A, in CPU
milliseconds, the median of five. `iteration` runs a system's programs dry until they repeat.
Status 1 if one takes over half a second.
"""

from __future__ import annotations

import sys
import time
from statistics import median

from workbench.dlion import SYSTEMS
from workbench.dlion.costs.iteration import iteration
from workbench.dlion.explorer import ROUNDS as SLIDER_ROUNDS
from workbench.dlion.explorer import Setting, cluster_of, workload_of

REPEATS, BAR_MS = 5, 500.0


def cpu_ms(system: str, **options: int) -> float:
    cluster, workload = cluster_of(Setting()), workload_of(Setting())
    taken_ms = []
    for _ in range(REPEATS):
        began_s = time.process_time()
        iteration(cluster, workload, system, **options)
        taken_ms.append(1e3 * (time.process_time() - began_s))
    return median(taken_ms)


def main() -> int:
    print(f"{'system':12} {'iteration':>10} {'8 rounds':>10}   ms")
    slowest_ms = 0.0
    for system in SYSTEMS:
        whole_ms = cpu_ms(system)
        print(f"{system:12} {whole_ms:10.0f} {cpu_ms(system, rounds=SLIDER_ROUNDS):10.0f}")
        slowest_ms = max(slowest_ms, whole_ms)
    print(f"bar {BAR_MS:.0f} ms", "missed" if slowest_ms > BAR_MS else "met")
    return int(slowest_ms > BAR_MS)


if __name__ == "__main__":
    sys.exit(main())
