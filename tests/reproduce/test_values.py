"""What the user gave is refused before anything runs, or reaches the notebooks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.reproduce.helpers import run, write_notebook
from workbench.reproduce import find, resolve


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (["dynacom"], {}, "unknown notebook 'dynacom'. Did you mean '.*dynacomm'"),
        (["03"], {}, "unknown notebook '03'.* Known: 01_dynacomm, 02_hiertrain"),
        ([], {"given": {"batchsize": "16"}}, "(?s)Did you mean 'batch_size'.*from 1 to 65536"),
        ([], {"given": {"output": "x"}}, "--output DIR"),
        ([], {"given": {"mine": "2"}}, "mine=2: must be true or false"),
        ([], {"scale": "papr"}, "Did you mean 'paper'"),
        ([], {"scale": "paper", "given": {"scale": "smoke"}}, "given twice"),
        ([], {"scale": ""}, "unknown scale ''. Known: smoke, default, paper"),
        (["02"], {"scale": "paper"}, "'scale' belongs to none of the chosen notebooks"),
        (["01"], {"given": {"workers": "2"}}, "none of the chosen notebooks .01_dynacomm."),
        ([], {"jobs": 0}, "--jobs 0: must be at least 1"),
    ],
)
def test_refused(two: Path, names: list[str], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(two, *names, **options)
    assert not (two / "out").exists()


def test_a_parameter_goes_to_those_that_have_it(two: Path) -> None:
    chosen = find(two / "notebooks")
    values = resolve(chosen, "paper", {"workers": "8", "bandwidth_mbps": "10"})
    assert values == {
        "01_dynacomm": {
            "scale": "paper",
            "seed": 0,
            "batch_size": 32,
            "bandwidth_mbps": 10.0,
        },
        "02_hiertrain": {"workers": 8, "mine": True},
    }


def test_a_planner_is_one_of_its_notebooks_system(two: Path) -> None:
    for name, planner in (("01_dynacomm", "dynacomm"), ("02_hiertrain", "hiertrain")):
        cell = f'scale: str = "smoke"\nplanner: str = "{planner}"\nbatch_size: int = 1'
        write_notebook(two / "notebooks" / f"{name}.ipynb", parameters=cell)
    both = find(two / "notebooks")
    assert resolve(both[1:], None, {"planner": "jalad"})["02_hiertrain"]["planner"] == "jalad"
    for chosen, planner in ((both[:1], "jalad"), (both[1:], "ibatch")):
        with pytest.raises(ValueError, match=f"^unknown planner '{planner}'"):
            resolve(chosen, None, {"planner": planner})
    with pytest.raises(ValueError, match=r"^02_hiertrain: unknown planner 'ibatch'.* all_edge"):
        resolve(both, None, {"planner": "ibatch"})
    with pytest.raises(ValueError, match=r"^batch_size=0: must be"):
        resolve(both, None, {"batch_size": "0"})


def test_a_parameter_of_another_system_is_known(two: Path) -> None:
    with pytest.raises(ValueError, match=r"'edge_cores' belongs to none of the chosen notebooks"):
        resolve(find(two / "notebooks", ["01"]), None, {"edge_cores": "2"})
