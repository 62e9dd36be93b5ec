"""How many trainings: the scale's number, or as many as are asked for."""

from typing import Any

import pytest

from workbench import systems
from workbench.experiments.figure import Figure
from workbench.experiments.scales import seeds_from

SEEDED = {
    f"{system}, {name}": figure
    for system in systems.SYSTEMS
    for name, figure in systems.recordable(system).items()
    if "seeds" in figure.parameters()
}


def test_they_count_from_the_first() -> None:
    assert list(seeds_from(4, 2, 3)) == [4, 5]
    assert list(seeds_from(4, None, 3)) == [4, 5, 6]


@pytest.mark.parametrize("figure", SEEDED.values(), ids=SEEDED)
@pytest.mark.parametrize("seeds", [0, -1, 1.5, "2", True])
def test_no_figure_takes_none(figure: Figure, seeds: Any) -> None:
    with pytest.raises(ValueError, match=f"seeds is {seeds!r}; it must be a whole number"):
        figure.frame("smoke", seeds=seeds)
