"""What a machine with few packages measures, and another reads without PyTorch."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ENOUGH = {"torch", "numpy", "polars", "typer", "rich", "psutil", "simpy"}
"""What docs/how-to/which_way.md says to install there."""

WITHOUT = """
import sys
from importlib.metadata import packages_distributions

missing, owners = sys.argv[1].split(), packages_distributions()

finders = list(sys.meta_path)

class Without:
    def find_spec(self, name, path=None, target=None):
        if {owner.lower() for owner in owners.get(name.partition(".")[0], ())} & {*missing}:
            return None
        found = (finder.find_spec(name, path, target) for finder in finders)
        return next(filter(None, found), None)

sys.meta_path[:] = [Without()]
import runpy
sys.argv[1:] = sys.argv[2:]
runpy.run_module("workbench.cli", run_name="__main__")
"""


def test_few_packages_measure_layers_on_a_board(tmp_path: Path) -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.split(r"[<>=]", text)[0].strip() for text in project["dependencies"]}
    missing = " ".join(needed - ENOUGH - {"networkx"})  # which PyTorch brings
    assert "altair" in missing
    file = str(tmp_path / "board.parquet")
    asked = ["profile", "lenet5", "--batch-size", "2", "--measure", "--save", file]
    command = [sys.executable, "-c", WITHOUT, missing, *asked]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "measured in one piece" in done.stdout
    read = "import sys; from workbench.profiles import LayerTimes\n"
    read += "times = LayerTimes.load(sys.argv[1])\n"
    read += "print(times.batch_size, len(times), 'torch' in sys.modules)"
    shown = subprocess.check_output([sys.executable, "-c", read, file], text=True)
    assert shown == "2 5 False\n"
