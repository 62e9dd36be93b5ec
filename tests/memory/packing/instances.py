"""Buffers to pack: cut from a rectangle, so that a packing without waste exists, and a chain's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
from numpy.random import Generator

Piece = tuple[int, int, int, int]  # first step, first step behind, lowest byte, bytes


def cut_rectangle(
    count: int,
    random: Generator,
    *,
    pinwheels: float,
    steps: int = 2**20,
    capacity: int = 2**20,
    least: int = 64,
) -> pl.DataFrame:
    """At least `count` pieces, each of at least `least` bytes; larger ones are cut more often.

    `pinwheels` is the share of cuts into five pieces about a centre, which no straight cut makes.
    """
    pieces: list[Piece] = [(0, steps, 0, capacity)]
    while len(pieces) < count:
        area = np.array([(upper - lower) * size for lower, upper, _, size in pieces], float)
        chosen = int(random.choice(len(pieces), p=area / area.sum()))
        cut = _pinwheel if random.random() < pinwheels else _halves
        pieces[chosen : chosen + 1] = cut(pieces[chosen], least, random)
    rows = np.array([(lower, upper, size) for lower, upper, _, size in pieces])
    return _frame(random.permutation(rows))


def _halves(piece: Piece, least: int, random: Generator) -> list[Piece]:
    lower, upper, offset, size = piece
    if random.random() < 0.5:
        if size < 2 * least:
            return [piece]
        part = int(random.integers(least, size - least + 1))
        return [(lower, upper, offset, part), (lower, upper, offset + part, size - part)]
    if upper - lower < 2:
        return [piece]
    middle = int(random.integers(lower + 1, upper))
    return [(lower, middle, offset, size), (middle, upper, offset, size)]


def _pinwheel(piece: Piece, least: int, random: Generator) -> list[Piece]:
    lower, upper, offset, size = piece
    if upper - lower < 3 or size < 3 * least:
        return [piece]
    width = int(random.integers(1, (upper - lower - 1) // 2 + 1))
    part = int(random.integers(least, (size - least) // 2 + 1))
    top = offset + size - part
    return [
        (lower, upper - width, offset, part),
        (upper - width, upper, offset, size - part),
        (lower + width, upper, top, part),
        (lower, lower + width, offset + part, size - part),
        (lower + width, upper - width, offset + part, size - 2 * part),
    ]


def guillotine(count: int, random: Generator) -> pl.DataFrame:
    """Straight cuts alone."""
    return cut_rectangle(count, random, pinwheels=0.0)


def pinwheel(count: int, random: Generator) -> pl.DataFrame:
    """No straight cut at all."""
    return cut_rectangle(count, random, pinwheels=1.0)


def few_sizes(count: int, random: Generator) -> pl.DataFrame:
    """A coarse grid: many equal sizes, many buffers that begin or end together."""
    steps = max(60, count // 2)
    pieces = cut_rectangle(count, random, pinwheels=0.3, steps=steps, capacity=48, least=1)
    return pieces.with_columns(size=1024 * pl.col("size"))


def perturbed(count: int, random: Generator) -> pl.DataFrame:
    """Pieces cut shorter by up to 5 % at each end and smaller by up to 3 %."""
    lower, upper, size = cut_rectangle(count, random, pinwheels=0.3).to_numpy().T
    less = random.random((3, len(size))) * [[0.05], [0.05], [0.03]]
    cut = (less * [upper - lower, upper - lower, size]).astype(np.int64)
    return _frame(np.stack([lower + cut[0], upper - cut[1], size - cut[2]], axis=1))


def mixed(count: int, random: Generator) -> pl.DataFrame:
    """A fifth lives long, the rest shortly; sizes over several orders of magnitude."""
    lower = random.integers(0, count, count)
    longest = np.where(random.random(count) < 0.2, count // 2, max(1, count // 20))
    upper = lower + random.integers(1, longest + 1)
    size = np.exp(random.normal(8.0, 1.5, count)).astype(np.int64) + 1
    return _frame(np.stack([lower, upper, size], axis=1))


FAMILIES: dict[str, Callable[[int, Generator], pl.DataFrame]] = {
    "guillotine": guillotine,
    "pinwheel": pinwheel,
    "few sizes": few_sizes,
    "perturbed": perturbed,
    "mixed": mixed,
}


def deep_chain(layers: int, random: Generator) -> pl.DataFrame:
    """A training step of a chain of layers with short cuts: an activation and two gradients each.

    Sizes fall by half now and then, as behind strided convolutions.
    """
    size = 2 ** (22 - np.arange(layers) * 5 // layers) * random.integers(1, 5, layers)
    step = np.arange(layers)
    back = 2 * layers - 1 - step
    shortcut = random.integers(1, 6, layers) * (random.random(layers) < 0.3)
    activations = np.stack([step, back + 1, size], axis=1)
    gradients = np.stack([np.maximum(back - 1 - shortcut, layers), back + 1, size], axis=1)
    scratch = np.stack([back, back + 1, random.permutation(size)], axis=1)
    return _frame(np.concatenate([activations, gradients, scratch]))


def _frame(rows: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["lower", "upper", "size"], orient="row")
