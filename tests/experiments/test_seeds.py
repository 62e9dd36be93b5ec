"""How many trainings: the scale's number, or as many as are asked for."""

import inspect
from typing import Any

import pytest

from workbench import systems
from workbench.experiments.record import Experiment, experiments
from workbench.experiments.seeds import seeds_from

SEEDED = {
    f"{system}, {name}": make
    for system in systems.systems()
    for name, make in experiments(system).items()
    if "seeds" in inspect.signature(make).parameters
}


def test_they_count_from_the_first() -> None:
    assert list(seeds_from(4, 2, 3)) == [4, 5]
    assert list(seeds_from(4, None, 3)) == [4, 5, 6]


@pytest.mark.parametrize("make", SEEDED.values(), ids=SEEDED)
@pytest.mark.parametrize("seeds", [0, -1, 1.5, "2", True])
def test_no_experiment_takes_none(make: Experiment, seeds: Any) -> None:
    with pytest.raises(ValueError, match=f"seeds is {seeds!r}; it must be a whole number"):
        make("smoke", seeds=seeds)
