"""Runs that several tests look at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.reproduction.helpers import KEPT, Finished, run, write_notebook
from workbench.reproduction import reproduce

FIGURE = """\
import altair as alt
import polars as pl
from workbench.utils import instruction_set
from workbench.reproduction.notebook import Results
print(instruction_set.record())
results = Results("good", output)
frame = pl.DataFrame({"x": [1, 2], "y": [batch_size, seed]})
results.keep("fig1", frame)
results.draw("fig1", alt.Chart(frame).mark_line().encode(x="x", y="y"))
"""
# Its kernel dies and leaves a process of its own behind.
DIES = """\
import os, subprocess
from pathlib import Path
child = subprocess.Popen(["sleep", "300"])
Path("child").write_text(str(child.pid))
os._exit(9)
"""


@pytest.fixture(scope="package")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Two notebooks that end well and two that do not, beside a wrong kernel named `python3`."""
    root = tmp_path_factory.mktemp("a {curly} place")
    kernels = root / "jupyter" / "kernels" / "python3"
    kernels.mkdir(parents=True)
    wrong = {"argv": ["/bin/false"], "display_name": "Wrong", "language": "python"}
    (kernels / "kernel.json").write_text(json.dumps(wrong))
    notebooks = root / "notebooks"
    write_notebook(notebooks / "01_good.ipynb", "# A figure", FIGURE, "print(scale, seed)")
    write_notebook(
        notebooks / "02_bad.ipynb", "# Where it breaks", KEPT, "no = {}\nno['such key']", "1"
    )
    write_notebook(notebooks / "03_dies.ipynb", DIES)
    write_notebook(
        notebooks / "04_plain.ipynb",
        "import os, sys\nprint(sys.executable)\nprint(os.getcwd())\n"
        "print(os.environ['OMP_WAIT_POLICY'])",
        parameters="repeats: int = 2",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(root / "jupyter"))
        patch.setenv("JUPYTER_PREFER_ENV_PATH", "0")
        report, text = run(
            root, jobs=2, given={"seed": "7", "repeats": "3"}, figures=root / "figures"
        )
    return root, report, text


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two notebooks of which only one has a bandwidth; none may start."""
    write_notebook(tmp_path / "notebooks" / "01_dynacomm.ipynb")
    write_notebook(
        tmp_path / "notebooks" / "02_hiertrain.ipynb", parameters="workers: int = 4\nmine = True"
    )
    monkeypatch.setattr(reproduce, "carry_out", None)
    return tmp_path
