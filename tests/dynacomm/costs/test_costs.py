"""Costs, plans, iterations and timelines against sums done by hand."""

import numpy as np
import pytest

from workbench.dynacomm import LayerCosts, Plan, iteration
from workbench.dynacomm.costs.timeline import timeline
from workbench.runtime.trace import Trace

# Two layers: pull 3 and 1, forward 2 and 4, backward 5 and 1, push 2 and 6, overhead 1.
COSTS = LayerCosts([3, 1], [2, 4], [5, 1], [2, 6], overhead_s=1)


def test_sequential_iteration_by_hand() -> None:
    ours = iteration(COSTS, Plan())
    assert ours.forward_s == (1 + 4) + 6
    assert ours.backward_s == 6 + (1 + 8)
    assert ours.total_s == 26
    assert ours.forward.overlap_s == 0
    assert ours.forward.communication_alone_s == 5
    assert ours.forward.computation_alone_s == 6


def test_cut_iteration_by_hand() -> None:
    ours = iteration(COSTS, Plan((1,), (1,)))
    # Layer 1 arrives at 4, layer 2 at 6; layer 1 computes 4..6, layer 2 computes 6..10.
    assert ours.forward_s == 10
    assert (ours.forward.communication_alone_s, ours.forward.overlap_s) == (4, 2)
    assert ours.forward.computation_alone_s == 4
    # Layer 2 is computed at 1 and pushed 1..8, layer 1 computed at 6 and pushed 8..11.
    assert ours.backward_s == 11
    assert (ours.backward.computation_alone_s, ours.backward.overlap_s) == (1, 5)
    assert ours.backward.communication_alone_s == 5


def test_timeline_by_hand() -> None:
    frame = timeline(COSTS, Plan((1,), (1,)), node="phone").frame
    rows = [row[1:5] for row in frame.sort("start_s", "lane").iter_rows()]
    assert rows == [
        ("pull", "1", 0, 4),
        ("forward", "1", 4, 6),
        ("pull", "2", 4, 6),
        ("forward", "2", 6, 10),
        ("backward", "2", 10, 11),
        ("backward", "1", 11, 16),
        ("push", "2", 11, 18),
        ("push", "1", 18, 21),
    ]
    assert set(frame["node"]) == {"phone"}


def test_plan_as_a_table() -> None:
    table = Plan((1,), (1, 2)).segments(layers=3)
    assert table.rows() == [
        ("pull", 1, 1, 1),
        ("pull", 2, 2, 3),
        ("push", 1, 3, 3),
        ("push", 2, 2, 2),
        ("push", 3, 1, 1),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pull_s": [1, 2, 3]}, "lengths differ"),
        ({"pull_s": []}, "at least one layer"),
        ({"pull_s": [[1, 2]]}, "shape"),
        ({"push_s": [1, float("nan")]}, "push_s of layer 2 is nan"),
        ({"forward_s": [-1, 2]}, "forward_s of layer 1 is -1"),
        ({"backward_s": ["a", "b"]}, "takes numbers"),
        ({"overhead_s": -0.1}, "overhead_s"),
        ({"overhead_s": float("inf")}, "overhead_s"),
        ({"overhead_s": 1.7e308}, "their sum is not"),
    ],
)
def test_costs_that_make_no_sense_are_refused(change: dict[str, object], message: str) -> None:
    given = {
        "pull_s": [3, 1],
        "forward_s": [2, 4],
        "backward_s": [5, 1],
        "push_s": [2, 6],
        "overhead_s": 1,
    }
    with pytest.raises(ValueError, match=message):
        LayerCosts(**(given | change))  # type: ignore[arg-type]


@pytest.mark.parametrize("cuts", [(2, 1), (1, 1), (0,), (-1, 1), (1.5,)])
def test_cuts_out_of_order_are_refused(cuts: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="forward_cuts"):
        Plan(cuts, ())


def test_cut_behind_the_last_layer_is_refused() -> None:
    with pytest.raises(ValueError, match="a model of 2 layers is cut behind 1 to 1"):
        iteration(COSTS, Plan((), (2,)))


def test_costs_cannot_be_changed_afterwards() -> None:
    given = np.array([3.0, 1.0])
    costs = LayerCosts(given, [2, 4], [5, 1], [2, 6], overhead_s=1)
    given[0] = 100
    assert iteration(costs, Plan()) == iteration(COSTS, Plan())
    with pytest.raises(ValueError, match="read-only"):
        costs.pull_s[0] = 1


def test_trace_survives_a_file(tmp_path: pytest.TempPathFactory) -> None:
    trace = timeline(COSTS, Plan())
    trace.save(tmp_path / "trace.parquet")  # type: ignore[operator]
    assert Trace.load(tmp_path / "trace.parquet").frame.equals(trace.frame)  # type: ignore[operator]
