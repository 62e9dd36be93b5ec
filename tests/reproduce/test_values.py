"""What the user gave is refused before anything runs, or reaches the notebooks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.reproduce.helpers import run
from workbench.reproduce import find, resolve


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (["dynacom"], {}, "unknown notebook 'dynacom'. Did you mean '.*dynacomm'"),
        (["03"], {}, "unknown notebook '03'.* Known: 01_dynacomm, 02_hiertrain"),
        ([], {"given": {"batchsize": "16"}}, "(?s)Did you mean 'batch_size'.*from 1 to 65536"),
        ([], {"given": {"output": "x"}}, "--output DIR"),
        ([], {"given": {"batch_size": "zero"}}, "batch_size=zero: must be a whole number"),
        ([], {"given": {"bandwidth_mbps": "nan"}}, "bandwidth_mbps=nan"),
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
