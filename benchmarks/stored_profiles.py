"""An explorer's first chart: the zoo's profiles as stored, against tracing them with PyTorch.

``python benchmarks/stored_profiles.py`` starts a new Python for each chart, the two ways in turn,
and prints the seconds from its start to the chart's specification, in CPU and in wall seconds, and
how many times as fast the stored profiles make it.
"""

from __future__ import annotations

import statistics
import subprocess
import sys

ROUNDS = 5
SYSTEMS = ("dynacomm", "hiertrain", "edgegossip", "dlion")
FIRST_CHART = """
import dataclasses, pathlib, sys, time
from workbench.profiles import analytic
if sys.argv[2] == "traced":
    analytic.KEPT = dataclasses.replace(analytic.KEPT, path=pathlib.Path("no such file"))
start_s = time.perf_counter(), time.process_time()
import importlib
explorer = importlib.import_module(f"workbench.{sys.argv[1]}.explorer")
chart = explorer.draw(explorer.Setting())
_ = chart if isinstance(chart, dict) else chart.to_dict()
print(time.perf_counter() - start_s[0], time.process_time() - start_s[1])
"""


def main() -> int:
    for system in SYSTEMS:
        took: dict[str, list[list[float]]] = {"stored": [], "traced": []}
        for round_number in range(ROUNDS + 1):
            for source, rounds in took.items():
                command = [sys.executable, "-c", FIRST_CHART, system, source]
                printed = subprocess.check_output(command, text=True)
                if round_number:  # the first is for reading files that the disk still holds
                    rounds.append([float(seconds) for seconds in printed.split()])
        for clock, name in enumerate(("wall", "CPU")):
            stored_s, traced_s = (
                statistics.median(seconds[clock] for seconds in rounds) for rounds in took.values()
            )
            print(
                f"{system:10} {name:4}: traced {traced_s:5.2f} s, stored {stored_s:5.2f} s: "
                f"ratio {traced_s / stored_s:.1f}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
