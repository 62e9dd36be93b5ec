"""Constants that a paper leaves open, fitted on what it states.

Claims are met or missed, so a misfit comes in steps and its least value lies at an edge, where a
claim is all but missed. A search finds it; each constant is then moved to the middle of the
interval in which no more is missed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Values = Mapping[str, float]
"""A number for each constant, to three digits."""


@dataclass(frozen=True)
class Search:
    """Which constants are sought, and how finely.

    Attributes
    ----------
    ranges
        Constants by name, with the least and the largest value that each may have; both above 0.
    population
        Points for each constant, and generations, of the search.
    step, steps
        How far a constant is varied in finding its interval: by ``step ** steps`` up and down.
    """

    ranges: Mapping[str, tuple[float, float]]
    population: int
    step: float
    steps: int
    seed: int = 1

    def least(self, misfit: Callable[[Values], float]) -> dict[str, float]:
        """Return the constants with the least misfit found, by differential evolution."""
        from scipy.optimize import differential_evolution

        def values(logarithms: Sequence[float]) -> dict[str, float]:
            # Three digits while searching, too: orders hold on one side of a bound alone.
            return {
                name: _rounded(math.exp(logarithm))
                for name, logarithm in zip(self.ranges, logarithms, strict=True)
            }

        bounds = [tuple(map(math.log, ends)) for ends in self.ranges.values()]
        # A large population and few generations, since most of the misfit comes in steps.
        best = differential_evolution(
            lambda logarithms: misfit(values(logarithms.tolist())),
            bounds,
            seed=self.seed,
            init="sobol",
            popsize=self.population,
            maxiter=self.population,
            tol=1e-4,
            polish=False,
        )
        return values(best.x.tolist())

    def centred(
        self, values: Values, misses: Callable[[Values], float], rounds: int = 2
    ) -> dict[str, float]:
        """Move each constant to the geometric middle of its `plateau`.

        One after the other, in `rounds`, since the intervals depend on each other.
        """
        values = dict(values)
        for name in [*self.ranges] * rounds:
            values[name] = _rounded(math.sqrt(math.prod(self.plateau(values, name, misses))))
        return values

    def plateau(
        self, values: Values, name: str, misses: Callable[[Values], float]
    ) -> tuple[float, float]:
        """Least and largest value of a constant, around its own, up to which no more is missed."""
        before, here = misses(values), values[name]
        low, high = self.ranges[name]

        def last(step: float) -> float:
            kept = here
            for number in range(1, self.steps + 1):
                value = here * step**number
                if not low <= value <= high or misses({**values, name: value}) > before:
                    break
                kept = value
            return kept

        return last(1 / self.step), last(self.step)


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")
