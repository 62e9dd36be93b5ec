"""Modules on nodes take what is predicted, whichever of them is slowest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles import olpb_nodes as oracle
from workbench.olpb.costs.subtasks import Node, Pool
from workbench.olpb.programs.cluster import cluster_of
from workbench.olpb.programs.modules import ModuleWork, nodes_of, programs_of
from workbench.runtime import Run, simulate


class Idle:
    """Learns nothing: only time passes."""

    def samples(self, batch: int) -> None: ...
    def forward(self, batch: int, features: None) -> None: ...
    def features(self, passed: None) -> None: ...
    def backward(self, gradient: None, passed: None) -> None: ...
    def end(self, iteration: int) -> None: ...

    def loss(self, batch: int, passed: None) -> tuple[float, None]:
        return 0.0, None


def run(modules: list[ModuleWork], pool: Pool, iterations: int = 1) -> Run:
    learners = [Idle() for _ in modules]
    return simulate(cluster_of(pool), programs_of(modules, pool, iterations, learners))


flops = st.floats(0, 20)
works = st.lists(st.builds(ModuleWork, flops, flops), min_size=1, max_size=6)


@given(works, st.integers(1, 8), st.floats(0, 5), st.floats(0, 5))
def test_takes_what_is_predicted(
    modules: list[ModuleWork], iterations: int, dispatch_s: float, delay_s: float
) -> None:
    pool = Pool(tuple(Node(2.0) for _ in range(7)), dispatch_s, delay_s)
    results = run(modules, pool, iterations).results
    forward_s = [dispatch_s + one.forward_flops / 2 for one in modules]
    backward_s = [dispatch_s + one.backward_flops / 2 for one in modules]
    expected_s = oracle.modules_s(forward_s, backward_s, delay_s, iterations)
    nodes = nodes_of(modules, pool)
    for module, node in enumerate(nodes):
        assert results[node] == pytest.approx(expected_s[module], rel=1e-9, abs=1e-12)


def test_the_dearest_module_gets_the_fastest_node_that_it_fits_on() -> None:
    pool = Pool((Node(1.0), Node(9.0, 10), Node(5.0), Node(2.0)))
    modules = [ModuleWork(1, 1), ModuleWork(5, 9, 0, 11), ModuleWork(3, 3, 0, 10)]
    assert nodes_of(modules, pool) == (3, 2, 1)


def test_bytes_take_their_time() -> None:
    pool = Pool((Node(1.0, None, 16.0), Node(1.0, None, 8.0)), 0.0, 0.5)
    modules = [ModuleWork(1.0, 1.0, 4.0), ModuleWork(1.0, 1.0)]
    results = run(modules, pool, 2).results
    # Forward 4 bytes at 16 bit/s: 2 s; back at 8 bit/s: 4 s; each with 0.5 s of delay.
    assert results[1][0] == pytest.approx(1 + 2.5 + 2)
    assert results[0] == pytest.approx([1, 5.5 + 4.5 + 1])


def test_a_module_below_all_that_is_trained_waits_for_no_gradient() -> None:
    pool = Pool((Node(1.0), Node(1.0)), 0.0, 0.5)
    modules = [ModuleWork(1.0, 0.0, 4.0, backward_dispatches=0), ModuleWork(1.0, 1.0)]
    results = run(modules, pool, 3).results
    first, second = nodes_of(modules, pool)
    assert results[first] == [1, 2, 3]
    assert results[second] == [1 + 0.5 + 2, 5.5, 7.5]


def test_refusals() -> None:
    pool = Pool((Node(1.0), Node(1.0, 5)))
    with pytest.raises(ValueError, match=r"3 modules need a node each, and the pool has 2"):
        nodes_of([ModuleWork(1, 1)] * 3, pool)
    with pytest.raises(ValueError, match="module 1 needs 9 bytes"):
        nodes_of([ModuleWork(2, 1, 0, 6), ModuleWork(1, 1, 0, 9)], pool)
