"""Exchanges of models in loops straight from the papers, on softmax regression in plain lists."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

Vector = list[float]
Batch = Sequence[tuple[Vector, int]]  # images and labels

LABELS = 10


def gradient(weights: Vector, batch: Batch) -> Vector:
    """Of the mean cross-entropy; weights are a row of pixels a label, then the biases."""
    result = [0.0] * len(weights)
    for image, label in batch:
        pixels = len(image)
        scores = []
        for row in range(LABELS):
            score = weights[LABELS * pixels + row]
            for pixel in range(pixels):
                score += weights[row * pixels + pixel] * image[pixel]
            scores.append(score)
        total = sum(math.exp(score) for score in scores)
        for row in range(LABELS):
            error = math.exp(scores[row]) / total - (1.0 if row == label else 0.0)
            error /= len(batch)
            result[LABELS * pixels + row] += error
            for pixel in range(pixels):
                result[row * pixels + pixel] += error * image[pixel]
    return result


class Inner:
    """SGD with momentum on one worker's weights."""

    def __init__(self, weights: Vector, rate: float, momentum: float = 0.0) -> None:
        self.weights, self.rate, self.momentum = list(weights), rate, momentum
        self.velocity = [0.0] * len(weights)

    def step(self, batch: Batch) -> None:
        slope = gradient(self.weights, batch)
        for e in range(len(slope)):
            self.velocity[e] = self.momentum * self.velocity[e] + slope[e]
            self.weights[e] -= self.rate * self.velocity[e]


def mean(vectors: Iterable[Vector]) -> Vector:
    of = list(vectors)
    return [sum(vector[e] for vector in of) / len(of) for e in range(len(of[0]))]


def diloco(
    workers: Sequence[Inner],
    batches: Sequence[Sequence[Batch]],
    every: int,
    rate: float,
    momentum: float,
) -> list[Vector]:
    """Alg. 1, with one set of global weights; `batches` by worker and iteration."""
    overall = list(workers[0].weights)
    velocity = [0.0] * len(overall)
    for t in range(len(batches[0])):
        for i in range(len(workers)):
            workers[i].step(batches[i][t])
        if (t + 1) % every == 0:
            for e in range(len(overall)):
                outer = 0.0
                for worker in workers:
                    outer += (overall[e] - worker.weights[e]) / len(workers)
                velocity[e] = momentum * velocity[e] + outer
                overall[e] -= rate * (outer + momentum * velocity[e])
            for worker in workers:
                worker.weights = list(overall)
    return [worker.weights for worker in workers]


def noloco(
    workers: Sequence[Inner],
    batches: Sequence[Sequence[Batch]],
    groups: Sequence[Sequence[Sequence[int]]],
    rates: tuple[float, float, float],
) -> list[Vector]:
    """As many rounds as there are `groups`: in each, the pairs and who is alone."""
    alpha, beta, gamma = rates
    every = len(batches[0]) // len(groups)
    size = len(workers[0].weights)
    slow = [list(worker.weights) for worker in workers]
    delta = [[0.0] * size for _ in workers]
    for t in range(len(batches[0])):
        for i in range(len(workers)):
            workers[i].step(batches[i][t])
        if (t + 1) % every == 0:
            before = [list(one) for one in slow]
            for group in groups[t // every]:
                for i in group:
                    for e in range(size):
                        outer, middle = 0.0, 0.0
                        for j in group:
                            outer += (before[j][e] - workers[j].weights[e]) / len(group)
                            middle += before[j][e] / len(group)
                        delta[i][e] *= alpha
                        delta[i][e] -= beta * outer + gamma * (before[i][e] - middle)
                        slow[i][e] = before[i][e] + delta[i][e]
            for i in range(len(workers)):
                workers[i].weights = list(slow[i])
    return slow


def choco_sgd(
    workers: Sequence[Inner], batches: Sequence[Sequence[Batch]], kept: int, gamma: float
) -> list[Vector]:
    """Alg. 2 with w_ij = 1/n and the `kept` largest values; the copies are the same everywhere."""
    size, count = len(workers[0].weights), len(workers)
    published = [[0.0] * size for _ in workers]
    for t in range(len(batches[0])):
        for i in range(count):
            workers[i].step(batches[i][t])
            left = [workers[i].weights[e] - published[i][e] for e in range(size)]
            for e in sorted(range(size), key=lambda e: (-abs(left[e]), e))[:kept]:
                published[i][e] += left[e]
        for i in range(count):
            for e in range(size):
                pull = 0.0
                for j in range(count):
                    pull += (published[j][e] - published[i][e]) / count
                workers[i].weights[e] += gamma * pull
    return [worker.weights for worker in workers]


def grouped(
    workers: Sequence[Inner],
    batches: Sequence[Sequence[Batch]],
    groups: Sequence[Sequence[Sequence[int]]],
    every: int,
) -> list[Vector]:
    """Moshpit SGD: after `every` steps means within groups, one partition after the other."""
    turn = 0
    for t in range(len(batches[0])):
        for i in range(len(workers)):
            workers[i].step(batches[i][t])
        if (t + 1) % every == 0:
            for group in groups[turn % len(groups)]:
                together = mean(workers[i].weights for i in group)
                for i in group:
                    workers[i].weights = list(together)
            turn += 1
    return [worker.weights for worker in workers]


def ad_psgd(
    models: Sequence[Vector],
    events: Sequence[tuple[str, int]],
    batches: Sequence[Sequence[Batch]],
    rate: float,
) -> list[Vector]:
    """Alg. 1 of two workers, as events happen: "gradient", "average" or "step" at one of them."""
    current = [list(model) for model in models]
    slopes: list[Vector] = [[], []]
    taken = [0, 0]
    for what, node in events:
        if what == "gradient":
            slopes[node] = gradient(current[node], batches[node][taken[node]])
            taken[node] += 1
        elif what == "average":
            together = mean(current)
            current = [list(together), list(together)]
        else:
            for e in range(len(current[node])):
                current[node][e] -= rate * slopes[node][e]
    return current
