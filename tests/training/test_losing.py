"""All trainings take the same faults, but for those that they could not get over."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from workbench import decentralised
from workbench.dynacomm.training import train as dynacomm
from workbench.edgegossip import train as edgegossip
from workbench.hiertrain.training import train as hiertrain
from workbench.runtime import Crash, Restart, SlowDown
from workbench.training.losing import check_losing_nothing

SLOW = SlowDown(0, 1.0, 2.0, 3.0)


@pytest.mark.parametrize(
    "train", [dynacomm.train, hiertrain.train, decentralised.train, edgegossip]
)
def test_all_trainings_have_the_same_keywords(train: Callable[..., Any]) -> None:
    parameters = inspect.signature(train).parameters.values()
    named = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
    assert named[-4:] == ["faults", "trace", "progress", "threads"]


def test_what_costs_time_alone_is_taken() -> None:
    assert check_losing_nothing(iter([SLOW]), "stop") == (SLOW,)


def test_the_first_that_loses_is_told() -> None:
    with pytest.raises(ValueError, match=r"Crash\(node=1, at_s=2\) loses .* without end; stop"):
        check_losing_nothing([SLOW, Crash(1, 2), Restart(1, 3)], "stop")
    with pytest.raises(ValueError, match="give a list"):
        check_losing_nothing(SLOW, "stop")  # type: ignore[arg-type]
