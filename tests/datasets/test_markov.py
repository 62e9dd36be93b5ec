"""Tokens have the entropy that is stated, and are the same everywhere."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest

from tests.refusals import refusals
from workbench.datasets import Dataset, load, markov

SIXTEENTHS = np.array([8, 4, 2, 1, 1]) / 16


def counted(data: Dataset) -> np.ndarray:
    """How often each token follows each pair, (V, V, V)."""
    x = np.concatenate([data.x_train, data.x_test])
    y = np.concatenate([data.y_train, data.y_test])
    counts = np.zeros((len(data.classes),) * 3)
    np.add.at(counts, (x[:, :-1], x[:, 1:], y[:, 1:]), 1)
    return counts


@pytest.fixture(scope="module")
def data() -> Dataset:
    return load("markov")


def test_labels_are_the_next_tokens(data: Dataset) -> None:
    assert data.x_train.shape == data.y_train.shape == (4096, 32)
    assert data.x_train.dtype == data.y_train.dtype == np.int64
    np.testing.assert_array_equal(data.x_train[:, 1:], data.y_train[:, :-1])


def test_five_tokens_follow_a_pair_with_the_stated_probabilities(data: Dataset) -> None:
    counts = counted(data)
    assert (np.count_nonzero(counts, axis=2) <= 5).all()
    often = counts.sum(axis=2) > 300
    ranked = -np.sort(-counts[often], axis=1)[:, :5]
    share, samples = ranked.sum(axis=0) / ranked.sum(), ranked.sum()
    # Two of them are equally likely, so that ranking by counts tells those apart by chance.
    share[3:] = share[3:].mean()
    np.testing.assert_allclose(share, SIXTEENTHS, atol=5 * math.sqrt(0.25 / samples))


def test_empirical_conditional_entropy_is_the_stated_one(data: Dataset) -> None:
    """By counts, with the correction of Miller (1955); within five standard errors."""
    assert data.entropy is not None
    counts, length = counted(data), data.x_train.shape[1]
    samples = counts.sum()
    plain = -(counts[counts > 0] * np.log((counts / counts.sum(axis=2, keepdims=True))[counts > 0]))
    seen = np.count_nonzero(counts.sum(axis=2))
    found = plain.sum() / samples + (np.count_nonzero(counts) - seen) / (2 * samples)
    bits = 1.875 * math.log(2)
    spread = math.sqrt(SIXTEENTHS @ (np.log(SIXTEENTHS) + bits) ** 2 / samples)
    assert abs(found - bits) < 5 * spread

    pairs = np.zeros((16, 16))
    np.add.at(pairs, (data.x_train, data.y_train), 1)
    pairs /= pairs.sum()
    first = -(pairs * np.log(pairs / pairs.sum(axis=1, keepdims=True))).sum()
    assert data.entropy == pytest.approx((first + (length - 1) * bits) / length, abs=1e-3)


def test_entropies_are_those_that_the_documentation_states(data: Dataset) -> None:
    first = load_one_label().entropy
    stated = [f"{value:.3f}" for value in (data.entropy, first, math.log(16))]
    assert all(f"{value}" in str(markov.__doc__) for value in stated), stated


def load_one_label() -> Dataset:
    return markov.load(length=1, train=1, test=1)


def test_entropy_is_that_of_a_chain_by_hand() -> None:
    """Two tokens, of which the next is the last but one with probability 3/4."""
    stays = np.array([[[0.75, 0.25], [0.75, 0.25]], [[0.25, 0.75], [0.25, 0.75]]])
    one = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    # Each of the four pairs is as likely, so that one token alone says nothing of the next.
    assert markov.entropy_of(stays, 1) == pytest.approx(math.log(2))
    assert markov.entropy_of(stays, 4) == pytest.approx((math.log(2) + 3 * one) / 4)


def test_every_machine_draws_the_same_and_another_seed_others(data: Dataset) -> None:
    digest = hashlib.sha256(data.x_train.tobytes() + data.y_test.tobytes()).hexdigest()
    assert digest[:16] == "78e2906e392c8dae"
    again = markov.load(1)
    assert not np.array_equal(again.x_train, data.x_train)
    assert again.entropy != data.entropy


def test_sequences_begin_as_they_go_on(data: Dataset) -> None:
    """The first tokens of samples are as frequent as the last ones: the chain has settled."""
    first, last = (np.bincount(data.x_train[:, at], minlength=16) for at in (0, -1))
    expected = np.bincount(data.x_train.ravel(), minlength=16) / data.x_train.shape[1]
    for found in (first, last):
        assert ((found - expected) ** 2 / expected).sum() < 50  # of 15 degrees of freedom


test_refused = refusals(
    markov.load,
    {"seed": 0, "tokens": 8, "length": 4, "train": 2, "test": 1},
    {
        "seed": {"seed is -1": [-1]},
        "tokens": {
            "tokens is 4; 5 different ones follow": [4],
            "tokens is 0": [0],
            "at most 256": [257],
        },
        "length": {"length is 0": [0]},
        "train": {"train is 'x'": ["x"]},
        "test": {"test is 0": [0]},
    },
)
