"""Decentralised training in loops straight from the papers, for models that are plain vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Vector = list[float]
Step = Callable[[int, int, Vector], Vector]  # node, step, model -> next model


def metropolis_hastings(neighbours: Sequence[Sequence[int]]) -> list[list[float]]:
    """Weights from lists of neighbours."""
    count = len(neighbours)
    matrix = [[0.0] * count for _ in range(count)]
    for i in range(count):
        rest = 1.0
        for j in neighbours[i]:
            degree = len(neighbours[i])
            degree = max(degree, len(neighbours[j]))
            matrix[i][j] = 1.0 / (degree + 1)
            rest -= matrix[i][j]
        matrix[i][i] = rest
    return matrix


def mixed(
    matrix: Sequence[Sequence[float]], models: Sequence[Vector], up: Sequence[bool]
) -> list[Vector]:
    """One exchange among the nodes that are up, the weights of the others renormalised."""
    result = []
    for i in range(len(models)):
        if not up[i]:
            result.append(models[i])
            continue
        total = 0.0
        for j in range(len(models)):
            if up[j]:
                total += matrix[i][j]
        new = []
        for element in range(len(models[i])):
            value = 0.0
            for j in range(len(models)):
                if up[j]:
                    value += matrix[i][j] / total * models[j][element]
            new.append(value)
        result.append(new)
    return result


def pair_of_gosgd(
    models: Sequence[Vector], step: Step, steps: int
) -> tuple[list[Vector], list[float]]:
    """GoSGD of two nodes in lockstep that send after every step (p = 1).

    A message takes half a step on the way, so that it is there before the next step but one; at
    the end both take over what is still coming.
    """
    current = [list(model) for model in models]
    alphas = [0.5, 0.5]
    arriving: list[list[tuple[int, float, Vector]]] = [[], []]  # when, alpha, model

    def take_over(node: int, until: int) -> None:
        for due, alpha, model in list(arriving[node]):
            if due <= until:
                total = alphas[node] + alpha
                for element in range(len(model)):
                    current[node][element] = (
                        alphas[node] * current[node][element] + alpha * model[element]
                    ) / total
                alphas[node] = total
                arriving[node].remove((due, alpha, model))

    for number in range(steps):
        for node in (0, 1):
            take_over(node, number)
            current[node] = step(node, number, current[node])
        for node in (0, 1):
            alphas[node] /= 2
            arriving[1 - node].append((number + 2, alphas[node], list(current[node])))
    for node in (0, 1):
        take_over(node, steps + 2)
    return current, alphas
