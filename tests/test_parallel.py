"""Calls in several processes: every result with its number, errors as they were raised."""

import os
import time

import pytest

from workbench.parallel import as_finished


def squared(number: float, wait_s: float = 0.0) -> tuple[float, int]:
    time.sleep(wait_s)
    return number**2, os.getpid()


def refuse(number: int) -> None:
    if number == 1:
        raise ValueError(f"{number} is refused")


def interrupt(number: int) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("processes", [1, 2, None])
def test_every_result_comes_once_with_its_number(processes: int | None) -> None:
    found = dict(as_finished(squared, [(float(at),) for at in range(5)], processes))
    assert {at: value for at, (value, _) in found.items()} == {at: at**2.0 for at in range(5)}


def test_results_come_as_they_are_ready() -> None:
    calls = [(0.0, 2.0), (1.0, 0.0)]
    assert [at for at, _ in as_finished(squared, calls, 2)] == [1, 0]


def test_one_process_is_this_one() -> None:
    assert {pid for _, (_, pid) in as_finished(squared, [(1.0,), (2.0,)], 1)} == {os.getpid()}
    assert {pid for _, (_, pid) in as_finished(squared, [(1.0,)], 2)} == {os.getpid()}
    assert os.getpid() not in {pid for _, (_, pid) in as_finished(squared, [(1.0,), (2.0,)], 2)}


@pytest.mark.parametrize("processes", [1, 2])
def test_what_a_call_raises_is_raised(processes: int) -> None:
    with pytest.raises(ValueError, match="1 is refused"):
        list(as_finished(refuse, [(0,), (1,)], processes))
    with pytest.raises(KeyboardInterrupt):
        list(as_finished(interrupt, [(0,), (1,)], processes))


def test_nothing_to_do() -> None:
    assert list(as_finished(squared, [])) == []


def test_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        list(as_finished(squared, [(1.0,)], 0))
