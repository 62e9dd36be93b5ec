"""Iterations and timelines against sums done by hand."""

import numpy as np
import pytest

from workbench.dynacomm import LayerCosts, Plan, iteration, timeline

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
    assert set(frame.filter(kind="transfer")["lane"]) == {"pull", "push"}


def test_costs_cannot_be_changed_afterwards() -> None:
    given = np.array([3.0, 1.0])
    costs = LayerCosts(given, [2, 4], [5, 1], [2, 6], overhead_s=1)
    given[0] = 100
    assert iteration(costs, Plan()) == iteration(COSTS, Plan())
    with pytest.raises(ValueError, match="read-only"):
        costs.pull_s[0] = 1
