"""Max N for five links of different bandwidth beside Max N for one: gradients of Cipher.

``python benchmarks/dlion_selection.py`` selects from real gradients, 1.3 million, for one link and
for five, once with budgets that part of the gradient fits, once with budgets that all of it fits;
and by a plain version, which tries N after N for every link. They take turns; medians of CPU
milliseconds on one core. Status 1 if five links take over 1.5 times as long as one, if one
selection takes 15 ms, or if the plain version sends other values.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from workbench import training
from workbench.dlion.algorithms.max_n import LEAST_N, STEPS, Ranks, per_link
from workbench.dlion.gradient import Gradient, Links
from workbench.dlion.part import Part, Values, encoded_bytes

ROUNDS, PLAIN_ROUNDS, BATCH = 41, 3, 32
LINKS_BAR, MS_BAR = 1.5, 15.0
BUDGETS = {
    "a part of it": (0.1, 0.2, 0.3, 0.4, 0.5),
    "a small part": (0.005, 0.01, 0.02, 0.03, 0.05),
    "all of it": (1.0, 1.5, 2.0, 3.0, 4.0),
}
"""Of five links, as shares of the gradient's bytes."""

Select = Callable[[Gradient, Links], Mapping[int, Part]]


def main() -> int:
    with training.fixed_threads():
        values, variables = cipher_gradient()
    print(f"{len(values):,} gradients of {len(variables)} weight variables")
    found = [missed(values, variables, *row) for row in BUDGETS.items()]
    return int(any(found))


def cipher_gradient() -> tuple[Values, tuple[slice, ...]]:
    """Of the zoo's Cipher on a batch of random images, flat; and its weight variables."""
    rng = np.random.default_rng(0)
    flat = training.flatten(training.initialise("cipher", seed=0), (3, 32, 32))
    x = rng.random((BATCH, 3, 32, 32), dtype=np.float32)
    training.gradient_step(flat, x, rng.integers(0, 10, BATCH))
    values: Values = flat.gradients.numpy()
    values.flags.writeable = False
    return values, tuple(flat.layout.tensor_slices.values())


def missed(
    values: Values, variables: tuple[slice, ...], name: str, shares: tuple[float, ...]
) -> bool:
    """Whether a bar was, with these budgets."""

    def gradient() -> Gradient:
        return Gradient(values, variables, 0.1, 1, lambda: values)

    five = links(values, shares)
    alone = [links(values, (share,)) for share in shares]
    chosen = [Ranks(gradient()).largest_n(five.budget_bytes(peer)) for peer in five.peers]
    one_ms, five_ms, ratios = [], [], []
    for turn in range(ROUNDS):
        one_ms.append(took_ms(per_link, gradient(), alone[turn % len(alone)]))
        five_ms.append(took_ms(per_link, gradient(), five))
        ratios.append(five_ms[-1] / one_ms[-1])
    plain_ms = [took_ms(plain, gradient(), five) for _ in range(PLAIN_ROUNDS)]
    same = all(
        part.size_bytes == other.size_bytes
        and np.array_equal(dense(part, values), dense(other, values))
        for part, other in zip(
            per_link(gradient(), five).values(), plain(gradient(), five).values(), strict=True
        )
    )
    one, links_ratio = statistics.median(one_ms), statistics.median(ratios)
    bad = links_ratio > LINKS_BAR or one >= MS_BAR or not same
    print(
        f"{'MISSED' if bad else 'met   '} {name}, N {min(chosen):g} to {max(chosen):g}: "
        f"one link {one:.2f} ms (bar {MS_BAR:g}), five {statistics.median(five_ms):.2f} ms, "
        f"{links_ratio:.2f} x (bar {LINKS_BAR:g}); plain {statistics.median(plain_ms):.0f} ms, "
        f"{'the same' if same else 'OTHER'} values"
    )
    return bad


def links(values: Values, shares: tuple[float, ...]) -> Links:
    """Which carry these shares of the gradient's bytes while an iteration of a second computes."""
    bps = {peer: 8 * share * values.nbytes for peer, share in enumerate(shares, 1)}
    return Links(0, bps, 1.0)


def took_ms(select: Select, gradient: Gradient, links: Links) -> float:
    began_s = time.process_time()
    select(gradient, links)
    return (time.process_time() - began_s) * 1e3


def plain(gradient: Gradient, links: Links) -> Mapping[int, Part]:
    """Bisection of N for each link, with Max N of all values for each N that is tried."""
    found = {}
    for peer in links.peers:
        budget = links.budget_bytes(peer)
        assert budget is not None
        fits, too_large = int(LEAST_N * STEPS / 100), STEPS + 1
        while too_large - fits > 1:
            middle = (fits + too_large) // 2
            if sent_bytes(gradient, masks(gradient, middle)) <= budget:
                fits = middle
            else:
                too_large = middle
        found[peer] = gradient.part(np.concatenate(masks(gradient, fits)))
    return found


def masks(gradient: Gradient, step: int) -> list[NDArray[np.bool_]]:
    """By variable, what an N of so many hundredths selects, straight from the formula."""
    magnitudes = [np.abs(gradient.values[one]) for one in gradient.variables]
    return [one >= (STEPS - step) * one.max(initial=0) / STEPS for one in magnitudes]


def sent_bytes(gradient: Gradient, chosen: list[NDArray[np.bool_]]) -> float:
    item_bytes = gradient.values.itemsize
    counts = map(np.count_nonzero, chosen)
    return sum(
        float(encoded_bytes(count, len(one), item_bytes))
        for count, one in zip(counts, chosen, strict=True)
    )


def dense(part: Part, values: Values) -> Values:
    flat = np.zeros_like(values)
    part.add_to(flat, 1.0)
    return flat


if __name__ == "__main__":
    sys.exit(main())
