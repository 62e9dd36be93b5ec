"""How long measured runs take to start and to end: Ray, processes, connections.

``python benchmarks/measured_start.py`` runs programs that return at once, on 3 and on 8 nodes, each
time from nothing, in a process of its own; then again in a session that is open. Status 1 if the
median of the rounds is over 6 s for 3 nodes, or over 12 s for 8, from the call to the first line of
a program. Importing PyTorch, which programs that learn need, is not in it.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

ROUNDS = 3
BARS_S = {3: 6.0, 8: 12.0}
ALONE = """
import sys, time
from workbench.clusters import Link, full_mesh
from workbench.runtime.measured import measure, session


async def program(context):
    return time.time()


nodes, called_s = int(sys.argv[1]), time.time()
cluster = full_mesh(nodes, Link(1e8))
with session(places=nodes):
    first_s = max(measure(cluster, [program] * nodes).results.values())
    again_s = time.time()
    second_s = max(measure(cluster, [program] * nodes).results.values())
    ends_s = time.time()
print(first_s - called_s, second_s - again_s, time.time() - ends_s)
"""


def started(nodes: int) -> list[float]:
    """Seconds to start from nothing, to start again, and to end."""
    made = subprocess.run(
        [sys.executable, "-c", ALONE, str(nodes)], check=True, capture_output=True, text=True
    )
    return [float(number) for number in made.stdout.split()[-3:]]


def main() -> int:
    """Do it for each number of nodes; 1 if a bar is missed."""
    missed = False
    for nodes, bar_s in BARS_S.items():
        began_s = time.monotonic()
        rounds = [started(nodes) for _ in range(ROUNDS)]
        start_s, again_s, end_s = (statistics.median(each) for each in zip(*rounds, strict=True))
        missed |= start_s > bar_s
        print(
            f"{'MISSED' if start_s > bar_s else 'met   '} {nodes} nodes: {start_s:.1f} s to start "
            f"(bar {bar_s:g} s), {again_s:.2f} s in an open session, {end_s:.1f} s to end; "
            f"medians of {ROUNDS}, {time.monotonic() - began_s:.0f} s in all",
            flush=True,
        )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
