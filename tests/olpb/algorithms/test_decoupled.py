"""Modules learn by the recurrence, each gradient as late as stated."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.oracles import olpb_nodes as oracle
from workbench.olpb.algorithms.decoupled import Module, backward, cut, forward


class Kept(NamedTuple):
    given: Tensor
    copy: Tensor
    made: Tensor


def deep(weights: Tensor, x: Tensor) -> Tensor:
    """Three weights a module, none of which acts alone."""
    return torch.tanh(weights[0] * x + weights[1]) * weights[2]


@given(st.integers(1, 5), st.integers(1, 9), st.integers(0, 1000))
@settings(max_examples=40)
def test_weights_are_those_of_the_recurrence(modules: int, iterations: int, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    start = torch.randn(3 * modules, generator=random, dtype=torch.float64)
    batches = torch.randn(iterations, 4, generator=random, dtype=torch.float64)
    places = [slice(3 * k, 3 * k + 3) for k in range(modules)]

    def gradient(batch: int, weights: Tensor) -> Tensor:
        leaf = weights.clone().requires_grad_()
        x = batches[batch]
        for where in places:
            x = deep(leaf[where], x)
        (found,) = torch.autograd.grad((x**2).mean(), leaf)
        return found

    def run(x: Tensor, weights: Tensor) -> Kept:
        given, copy = x.detach().requires_grad_(), weights.clone().requires_grad_()
        return Kept(given, copy, deep(copy, given))

    states = [Module[Tensor, Kept](k, modules, start[where]) for k, where in enumerate(places)]
    wanted = oracle.late_descent(gradient, start, places, 0.1, iterations)
    coming: list[Tensor | None] = [None] * modules  # by module, from the iteration before
    for t in range(iterations):
        found = torch.cat([state.weights for state in states])
        torch.testing.assert_close(found, wanted[t], rtol=1e-12, atol=1e-12)
        x = batches[t]
        for k in range(modules):
            states[k] = forward(states[k], partial(run, x))
            x = states[k].passes[-1].made
        going: list[Tensor | None] = [None] * modules
        for k in range(modules):
            assert states[k].due == (t >= modules - 1 - k)
            above = coming[k]

            def learn(
                weights: Tensor, kept: Kept, above: Tensor | None = above
            ) -> tuple[Tensor, Tensor]:
                made = (kept.made**2).mean() if above is None else kept.made
                own, before = torch.autograd.grad(made, [kept.copy, kept.given], above)
                return weights - 0.1 * own, before

            states[k], before = backward(states[k], learn)
            if k:
                going[k - 1] = before
        coming = going
    found = torch.cat([state.weights for state in states])
    torch.testing.assert_close(found, wanted[-1], rtol=1e-12, atol=1e-12)


@given(st.lists(st.floats(0, 10), min_size=1, max_size=9), st.integers(1, 9))
def test_cuts_are_the_best(costs: list[float], modules: int) -> None:
    if modules > len(costs):
        with pytest.raises(ValueError, match=f"cannot be cut into {modules} modules"):
            cut(costs, modules)
        return
    spans = cut(costs, modules)
    assert len(spans) == modules
    assert [at for span in spans for at in span] == list(range(len(costs)))
    assert all(spans)
    most = max(sum(costs[span.start : span.stop]) for span in spans)
    assert most == pytest.approx(oracle.dearest(costs, modules), abs=1e-9)
    for left, span in enumerate(reversed(spans[:-1]), 1):  # the longest modules first
        assert span.stop == len(costs) - left or sum(costs[span.start :][: len(span) + 1]) > (
            most - 1e-9
        )


def test_no_batch_is_passed_on_while_a_gradient_is_due() -> None:
    state = forward(Module[int, int](1, 2, 7), lambda weights: weights)
    with pytest.raises(AssertionError, match="goes backward before it passes another batch on"):
        forward(state, lambda weights: weights)
