"""HierTrain from the paper in clear loops: no reuse of the package's solvers, no speed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product

import numpy as np
from scipy.optimize import linprog

Numbers = Sequence[float]


@dataclass(frozen=True)
class Given:
    """The paper's Table I as plain lists; layer 1 is at index 0."""

    forward_s: Mapping[str, Numbers]
    backward_s: Mapping[str, Numbers]
    update_s: Mapping[str, Numbers]
    param_bytes: Numbers
    output_bytes: Numbers
    sample_bytes: float
    bandwidth_bps: Mapping[frozenset[str], float]
    batch: int
    overhead_s: Mapping[frozenset[str], float]

    @property
    def layers(self) -> int:
        return len(self.param_bytes)

    def gradient_bytes(self, layer: int) -> float:
        """Of a sample, back to layer `layer`: none where nothing up to it is trained."""
        return self.output_bytes[layer - 1] if sum(self.param_bytes[:layer]) > 0 else 0.0

    def message_s(self, size_bytes: float, a: str, b: str) -> float:
        """Eq. (4), with an overhead for every message that has bytes."""
        if a == b or size_bytes == 0:
            return 0.0
        pair = frozenset((a, b))
        return self.overhead_s[pair] + 8 * size_bytes / self.bandwidth_bps[pair]


Choice = tuple[tuple[str, ...], int, int, int, int, int]  # order, m_s, m_l, b_o, b_s, b_l
TIERS = ("device", "edge", "cloud")


def hybrid_s(given: Given, choice: Choice) -> float:
    """Eq. (12), term by term."""
    (o, s, l), m_s, m_l, b_o, b_s, b_l = choice  # noqa: E741
    bits_o = given.message_s(b_o * given.sample_bytes, "device", o)
    bits_s = given.message_s(b_s * given.sample_bytes, "device", s)
    bits_l = given.message_s(b_l * given.sample_bytes, "device", l)
    s_output = given.message_s(b_s * given.output_bytes[m_s - 1], s, o) if m_s > 0 else 0.0
    l_output = given.message_s(b_l * given.output_bytes[m_l - 1], l, o) if m_l > 0 else 0.0
    s_grad = given.message_s(b_s * given.gradient_bytes(m_s), s, o) if m_s > 0 else 0.0
    l_grad = given.message_s(b_l * given.gradient_bytes(m_l), l, o) if m_l > 0 else 0.0

    def layers_s(times: Mapping[str, Numbers], worker: str, a: int, b: int, samples: int) -> float:
        """Layers a to b, both included and counted from 1 (Eqs. 1 and 2)."""
        return sum(samples * times[worker][i - 1] for i in range(a, b + 1))

    def forward(worker: str, a: int, b: int, samples: int) -> float:
        return layers_s(given.forward_s, worker, a, b, samples)

    def backward(worker: str, a: int, b: int, samples: int) -> float:
        return layers_s(given.backward_s, worker, a, b, samples)

    n, batch = given.layers, b_o + b_s + b_l
    forward_1 = max(
        bits_o + forward(o, 1, m_s, b_o),
        bits_s + forward(s, 1, m_s, b_s) + s_output,
        bits_l + forward(l, 1, m_s, b_l),
    )
    backward_1 = max(
        backward(o, 1, m_s, b_o),
        backward(s, 1, m_s, b_s) + s_grad,
        backward(l, 1, m_s, b_l),
    )
    forward_2 = max(
        forward(o, m_s + 1, m_l, b_o + b_s),
        forward(l, m_s + 1, m_l, b_l) + l_output,
    )
    backward_2 = max(
        backward(o, m_s + 1, m_l, b_o + b_s),
        backward(l, m_s + 1, m_l, b_l) + l_grad,
    )
    forward_3, backward_3 = forward(o, m_l + 1, n, batch), backward(o, m_l + 1, n, batch)
    updates = max(
        sum(given.update_s[o][:n]), sum(given.update_s[s][:m_s]), sum(given.update_s[l][:m_l])
    )
    exchanges = max(
        2 * given.message_s(sum(given.param_bytes[:m_s]), s, o),
        2 * given.message_s(sum(given.param_bytes[:m_l]), l, o),
    )
    phases = forward_1 + backward_1 + forward_2 + backward_2 + forward_3 + backward_3
    return phases + updates + exchanges


def all_hybrids(layers: int, batch: int) -> Iterator[Choice]:
    for order in permutations(TIERS):
        for m_s in range(layers + 1):
            for m_l in range(m_s, layers + 1):
                for b_s in range(min(batch, m_s * batch) + 1):
                    for b_l in range(min(batch - b_s, m_l * batch) + 1):
                        yield order, m_s, m_l, batch - b_s - b_l, b_s, b_l


def chain_s(given: Given, tiers: Sequence[str], bits: int = 32, gradient_bits: int = 32) -> float:
    """Walk through the layers forth and back; `bits` are for what passes edge and cloud."""
    batch = given.batch
    total_s = given.message_s(batch * given.sample_bytes, "device", tiers[0])
    for layer, tier in enumerate(tiers):
        total_s += batch * (given.forward_s[tier][layer] + given.backward_s[tier][layer])
        if layer + 1 < len(tiers):
            following = tiers[layer + 1]
            quantised = {tier, following} == {"edge", "cloud"}
            back = given.gradient_bytes(layer + 1)
            for of_sample, used in ((given.output_bytes[layer], bits), (back, gradient_bits)):
                size = batch * of_sample
                sent = size * used / 32 if quantised else size
                total_s += given.message_s(sent, tier, following)
    updates = dict.fromkeys(TIERS, 0.0)
    for layer, tier in enumerate(tiers):
        updates[tier] += given.update_s[tier][layer]
    return total_s + max(updates.values())


def best_assignment_s(given: Given, allowed: Sequence[str]) -> float:
    return min(chain_s(given, tiers) for tiers in product(allowed, repeat=given.layers))


def best_cut_s(given: Given, bits: int, gradient_bits: int) -> float:
    n = given.layers
    return min(
        chain_s(given, ["edge"] * cut + ["cloud"] * (n - cut), bits, gradient_bits)
        for cut in range(n + 1)
    )


def algorithm_1(given: Given) -> tuple[Choice, float]:
    """The paper's Algorithm 1: a linear programme for every mapping, m_s and m_l, rounded.

    The programme knows no overheads; the rounded policy is judged with them.
    """
    best: tuple[Choice, float] | None = None
    for order in permutations(TIERS):
        for m_s in range(given.layers + 1):
            for m_l in range(m_s, given.layers + 1):
                b_o, b_s, b_l = rounded(linear_programme(given, order, m_s, m_l), given.batch)
                choice = (order, m_s, m_l, b_o, b_s, b_l)
                total_s = hybrid_s(given, choice)
                if best is None or total_s < best[1]:
                    best = (choice, total_s)
    assert best is not None
    return best


def linear_programme(given: Given, order: Sequence[str], m_s: int, m_l: int) -> tuple[float, ...]:
    """Relaxed P1 for fixed m_s, m_l; variables b_o, b_s, b_l and the four maxima."""
    o, s, l = order  # noqa: E741

    def per_byte_s(a: str, b: str) -> float:
        return 0.0 if a == b else 8 / given.bandwidth_bps[frozenset((a, b))]

    q = given.sample_bytes
    out_s = given.output_bytes[m_s - 1] * per_byte_s(s, o) if m_s else 0.0
    out_l = given.output_bytes[m_l - 1] * per_byte_s(l, o) if m_l else 0.0
    back_s = given.gradient_bytes(m_s) * per_byte_s(s, o) if m_s else 0.0
    back_l = given.gradient_bytes(m_l) * per_byte_s(l, o) if m_l else 0.0
    f, g = given.forward_s, given.backward_s
    rows = [  # coefficients of b_o, b_s, b_l and which maximum bounds them
        ([per_byte_s("device", o) * q + sum(f[o][:m_s]), 0, 0], 0),
        ([0, per_byte_s("device", s) * q + sum(f[s][:m_s]) + out_s, 0], 0),
        ([0, 0, per_byte_s("device", l) * q + sum(f[l][:m_s])], 0),
        ([sum(g[o][:m_s]), 0, 0], 1),
        ([0, sum(g[s][:m_s]) + back_s, 0], 1),
        ([0, 0, sum(g[l][:m_s])], 1),
        ([sum(f[o][m_s:m_l])] * 2 + [0], 2),
        ([0, 0, sum(f[l][m_s:m_l]) + out_l], 2),
        ([sum(g[o][m_s:m_l])] * 2 + [0], 3),
        ([0, 0, sum(g[l][m_s:m_l]) + back_l], 3),
    ]
    matrix = np.zeros((len(rows), 7))
    for row, (coefficients, maximum) in enumerate(rows):
        matrix[row, :3] = coefficients
        matrix[row, 3 + maximum] = -1
    found = linprog(
        c=[0, 0, 0, 1, 1, 1, 1],
        A_ub=matrix,
        b_ub=np.zeros(len(rows)),
        A_eq=[[1, 1, 1, 0, 0, 0, 0]],
        b_eq=[given.batch],
        bounds=[(0, given.batch), (0, m_s * given.batch), (0, m_l * given.batch)] + [(0, None)] * 4,
        method="highs",
    )
    assert found.status == 0, found.message
    return tuple(float(b) for b in found.x[:3])


def rounded(real: Sequence[float], batch: int) -> tuple[int, int, int]:
    """The paper's rounding: one up, or else two, by the size of the fractions.

    The solver's answers are exact to some 1e-7; what is that close to a whole number is one, and
    an answer that is whole needs no step.
    """
    near = [round(b) if abs(b - round(b)) < 1e-6 else b for b in real]
    whole = [int(b) for b in near]
    by_fraction = sorted(range(3), key=lambda j: near[j] - whole[j], reverse=True)
    for steps in range(3):
        tried = list(whole)
        for j in by_fraction[:steps]:
            tried[j] += 1
        if sum(tried) == batch:
            return tried[0], tried[1], tried[2]
    raise AssertionError(f"{real} cannot be rounded to {batch}")
