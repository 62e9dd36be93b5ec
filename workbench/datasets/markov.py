"""Tokens from a Markov chain of order two: text whose entropy is known, and no network.

Each token depends on the two before it: five of 16 tokens may follow a pair, with probabilities of
1/2, 1/4, 1/8 and twice 1/16, so 1.875 bits are left to chance whatever the pair. Which five, and in
which order, is drawn for each pair by the seed. A sample is 32 tokens, its labels are the tokens
that follow each. The first label has one token before it, and so is harder; all others need both,
which a model finds by attention, or by reading two tokens at once.

No model's mean cross entropy on such samples is below `Dataset.entropy`, the exact conditional
entropy of a label, 1.339 nats; on a few samples it may be by chance. Predicting from the last token
alone gives 2.565 nats, guessing 2.773.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from workbench.datasets.dataset import Dataset
from workbench.utils.checks import UserError, check_whole

TOKENS, LENGTH, TRAIN, TEST = 16, 32, 4096, 1024
MOST_TOKENS = 256

_FOLLOWING = (8, 4, 2, 1, 1)  # sixteenths: probabilities that no rounding changes
_SIXTEENTHS = sum(_FOLLOWING)
_FIRST_STEPS = 64  # until a sequence has forgotten its first tokens

Counts = NDArray[np.float64]


def load(
    seed: int = 0,
    *,
    tokens: int = TOKENS,
    length: int = LENGTH,
    train: int = TRAIN,
    test: int = TEST,
) -> Dataset:
    """Draw sequences; another `seed` is another chain, and other sequences.

    ``datasets.load("markov")`` is the one of seed 0. The same arguments give the same tokens, on
    every machine.
    """
    seed = check_whole("seed", seed, 0)
    if check_whole("tokens", tokens, 1) < len(_FOLLOWING):
        raise UserError(f"tokens is {tokens}; {len(_FOLLOWING)} different ones follow each pair")
    if tokens > MOST_TOKENS:
        raise UserError(f"tokens is {tokens}; there are tokens**3 numbers: at most {MOST_TOKENS}")
    for name, count in (("length", length), ("train", train), ("test", test)):
        check_whole(name, count, 1)
    bits = np.random.PCG64(np.random.SeedSequence(seed))
    # A row of sixteen tokens for each pair: one drawn evenly has the chain's probabilities.
    order = bits.random_raw(tokens**3).reshape(tokens, tokens, tokens).argsort(axis=2)
    following = order[..., : len(_FOLLOWING)].repeat(_FOLLOWING, axis=2)
    count = train + test
    drawn = np.empty((_FIRST_STEPS + length + 1, count), np.int64)
    drawn[:2] = (bits.random_raw(2 * count) % np.uint64(tokens)).reshape(2, count)
    for at in range(2, len(drawn)):
        slots = (bits.random_raw(count) % np.uint64(_SIXTEENTHS)).astype(np.int64)
        drawn[at] = following[drawn[at - 2], drawn[at - 1], slots]
    kept = np.ascontiguousarray(drawn[_FIRST_STEPS:].T)
    x, y = kept[:, :-1], kept[:, 1:]
    return Dataset(
        "markov",
        *(x[:train], y[:train], x[train:], y[train:]),
        tuple(map(str, range(tokens))),
        entropy=entropy_of(_probabilities(following), length),
    )


def entropy_of(probabilities: Counts, length: int) -> float:
    """Mean conditional entropy of a label, in nats, where the first label knows one token alone.

    ``probabilities[a, b, c]`` is the probability of `c` after `a`, `b`.
    """
    pairs = np.full(probabilities.shape[:2], 1 / probabilities[..., 0].size)
    for _ in range(10_000):
        following = np.einsum("ab,abc->bc", pairs, probabilities)
        if np.abs(following - pairs).max() < 1e-16:
            break
        pairs = following
    behind_one = pairs / pairs.sum(axis=1, keepdims=True)
    first = _entropies(behind_one) @ pairs.sum(axis=1)
    others = (_entropies(probabilities) * pairs).sum()
    return float((first + (length - 1) * others) / length)


def _probabilities(following: NDArray[np.int64]) -> Counts:
    probabilities = np.zeros((*following.shape[:2], following.shape[0]))
    a, b, _ = np.indices(following.shape)
    np.add.at(probabilities, (a, b, following), 1 / _SIXTEENTHS)
    return probabilities


def _entropies(probabilities: Counts) -> Counts:
    """Entropy of each row, in nats."""
    logs = np.log(probabilities, where=probabilities > 0, out=np.zeros_like(probabilities))
    return np.asarray(-(probabilities * logs).sum(axis=-1))
