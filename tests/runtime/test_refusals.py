"""What is refused, field by field, and what is said of a program that does something wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.refusals import refusals
from tests.runtime.programs import LINK, idle
from tests.runtime.test_failures import failing, failure, holds_results
from workbench.clusters import Cluster, MissingLinkError, Node, UnknownNodeError, full_mesh
from workbench.runtime import (
    Context,
    Crash,
    Fault,
    LinkDown,
    Lossy,
    Message,
    Restart,
    SlowDown,
    Synchronized,
    draw_faults,
    simulate,
)

NOT_NUMBERS: list[Any] = ["5", None, True, np.array([3.0])]
NOT_SECONDS: list[Any] = [math.nan, math.inf, -1]
NOT_NODES: list[Any] = [None, 0.5, True]

test_message = refusals(
    Message,
    {"sender": 1, "topic": "x", "size_bytes": 5.0},
    {
        "sender": {"give the node's index, as in Message": ["bad", None, 0.5]},
        "topic": {"the topic of a message is .* give text": [{"w": 1}, None]},
        "size_bytes": {
            "message 'x' has a size of .* bytes; sizes are numbers, not negative, at most 1e": [
                *NOT_SECONDS,
                *NOT_NUMBERS,
                1e308,
            ]
        },
        "tensor_bytes": {
            "tensors of 3 bytes together, not its size of 5": [(1, 2), [1, 2], 3],
            "tensors of .* bytes; sizes are numbers, not": [(-1, 6), (np.array([5.0]),)],
            "tensor_bytes is .*; give the size of each": ["ab"],
            "is {2, 3}, where order counts; give": [{2, 3}],
        },
        "control": {
            "'x' is 'no'; give True or False": ["no"],
            r"'x' has 5\.0 bytes; a control message has no size": [True],
        },
    },
)
test_crash = refusals(
    Crash,
    {"node": 0, "at_s": 1},
    {
        "node": {"is not a node; give its index or its name": NOT_NODES},
        "at_s": {
            "at_s must be finite and not negative": NOT_SECONDS,
            "at_s of Crash.* is .*; give a number": NOT_NUMBERS,
        },
    },
)
test_restart = refusals(Restart, {"node": 0, "at_s": 1}, {"at_s": {"at_s must be fin": [-1]}})
test_slow_down = refusals(
    SlowDown,
    {"node": 0, "from_s": 0, "to_s": 2, "factor": 2},
    {
        "node": {"is not a node; give": NOT_NODES},
        "from_s": {"finite, not negative, and before to_s": [*NOT_SECONDS, 2]},
        "to_s": {"to_s of SlowDown.* is .*; give a number": NOT_NUMBERS, "before to_s": [math.nan]},
        "factor": {"must be above 0 and finite": [0, *NOT_SECONDS], "is '2'; give a n": ["2"]},
    },
)
test_link_down = refusals(
    LinkDown,
    {"source": 0, "target": 1, "from_s": 0},
    {"target": {"is not a node": NOT_NODES}, "from_s": {"must be finite": NOT_SECONDS}},
)
test_lossy = refusals(
    Lossy,
    {"source": 0, "target": 1, "probability": 0.5},
    {"probability": {"between 0 and 1": [1.5, -1, math.nan], "is 'a'; give a number": ["a"]}},
)
test_draw_faults = refusals(
    draw_faults,
    {"seed": 1, "cluster": full_mesh(2, LINK), "until_s": 10, "crash_every_s": 9},
    {
        "seed": {"seed is .*; it must be a whole number": [1.5, -1, True]},
        "cluster": {"cluster is 'x'; give a Cluster": ["x"]},
        "until_s": {
            "until_s is 'x'; give a number": ["x"],
            "above 0 and finite": [0, math.inf],
            "faults would be drawn for 2 nodes and 2 links": [1e9],
        },
        "crash_every_s": {"crash_every_s is .*; it must be above 0": [0, math.nan]},
        "down_s": {"down_s is None; give a number": [None]},
        "slow_factor": {"slow_factor is -2; it must be above 0": [-2]},
    },
)
test_synchronized = refusals(
    Synchronized, {"value": 1}, {"parallel": {"parallel is 'no'; give True or False": ["no"]}}
)


async def done(context: Context) -> None:
    """Do nothing."""


THREE = Cluster([Node("one"), Node("two"), Node("three")], {(0, 1): LINK, (1, 0): LINK})
test_simulate = refusals(
    lambda cluster=THREE, programs=(done,) * 3, **options: simulate(cluster, programs, **options),
    {},
    {
        "cluster": {"cluster is 2; give a Cluster": [2]},
        "programs": {
            r"1 programs for 3 nodes \(one, two, three\)": [[done]],
            "Did you mean 'one'": [{"oen": done}],
            "unknown node 5": [{5: done}],
            "the program of two is 3": [{1: 3}],
            "two programs for one": [{0: done, "one": done}],
            r"programs is .*; give one for each node, such as \[program\] \* 3": [done, None],
        },
        "progress": {"progress is .* give True, or a function of virtual": [5]},
        "trace": {"trace is 'no'; give True or False": ["no"]},
        "threads": {"threads is .* it must be a whole number of at": [0, -1, 1.5, "two", True]},
        "seed": {"seed is": [-1, 1.5, True]},
        "until_s": {"until_s is": [-1, "5"], "nan; give the seconds at which": [math.nan]},
        "faults": {
            "unknown node 7": [[Crash(7, 1)]],
            "Did you mean 'one'": [[SlowDown("onne", 0, 1, 2)]],
            "no link leads from one to three": [[LinkDown("one", "three", 1)]],
            "one is up already then": [[Restart("one", 1)]],
            "one is down already then": [[Crash("one", 1), Crash(0, 2)]],
            "give a Crash, Restart, SlowDown, LinkDown or": [["crash"], [Crash], [Fault()]],
            "faults is .*; give a list": [Crash(0, 1), "crash", None],
            "give a list, .* happen in their order": [{Crash(0, 1), Restart(0, 2)}],
        },
    },
)


@pytest.mark.parametrize(
    ("fault", "error"),
    [(Crash(7, 1), UnknownNodeError), (LinkDown("one", "three", 1), MissingLinkError)],
)
def test_wrong_places_have_errors_of_their_own(fault: Fault, error: type[Exception]) -> None:
    with pytest.raises(error):
        simulate(THREE, [idle] * 3, faults=[fault])


async def awaited(what: Any) -> None:
    await what


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda context: context.send(9, Message(1, "x")), "UnknownNodeError: unknown node 9"),
        (lambda context: context.send(True, Message(1, "x")), "unknown node True"),
        (lambda context: context.send("god", Message(1, "x")), "Did you mean 'good'"),
        (
            lambda context: context.send(0, Message(1, "x")),
            "MissingLinkError: no link leads from bad to good; links lead from bad to: nowhere",
        ),
        (lambda context: context.send(1, Message(0, "x")), "make it with sender=context.node"),
        (lambda context: context.send(0, "hi"), "bad sends 'hi'; send a Message(context.node, "),
        (lambda context: awaited(context.send(1, Message(1, "x"))), "send returns at once"),
        (lambda context: context.compute(int, cost_s=math.nan), "cost_s of compute is nan"),
        (lambda context: context.compute(int, cost_s=-1, label="f"), "cost_s of f is -1"),
        (lambda context: context.compute(int, cost_s=1, label=5), "label 5; give text"),
        (lambda context: context.compute(5, cost_s=1), "is 5; give a function without arguments"),
        (
            lambda context: context.compute(lambda: context.sleep(1), cost_s=1),
            "made a coroutine; give a plain function",
        ),
        (lambda context: context.sleep(math.inf), "seconds to sleep is inf; it must be a finite"),
        (lambda context: context.sleep(np.array([1.0])), "seconds to sleep is array([1.])"),
        (lambda context: context.receive(timeout_s=-1), "timeout_s is -1"),
        (lambda context: context.receive(3), "receive waits for topic 3; give text, or sender="),
        (lambda context: context.receive(sender="god"), "Did you mean 'good'"),
        (lambda context: context.spawn(idle), "called, as in context.spawn(work(context))"),
        (lambda context: context.spawn(5), "spawn is given 5; give a coroutine"),
        (lambda context: context.first(), "first is given nothing to wait for"),
        (lambda context: 1 / 0, "ZeroDivisionError: division by zero"),
    ],
)
def test_what_a_program_does_wrong_is_told_and_results_are_kept(action: Any, message: str) -> None:
    error = failure(failing(action))
    assert "program of bad (node 1) failed at 2 s: " in str(error)
    assert message in str(error)
    assert error.run.ended == "failed"
    assert holds_results(error.run)
    assert error.__cause__ is not None
