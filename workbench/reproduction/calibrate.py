"""Constants that a paper leaves open, fitted on what it states.

Claims are met or missed, so the misfit is a step function and a search ends at an edge, where a
claim is all but missed. Each constant is then moved to the middle of the interval in which no more
claims are missed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Values = Mapping[str, float]
"""A number for each constant, to three digits."""


@dataclass(frozen=True)
class Search:
    """A search for constants.

    Attributes
    ----------
    ranges
        Constants by name, with the least and the largest value that each may have; both above 0.
    population
        Points for each constant, and generations, of the search.
    step, steps
        An interval is explored up to a factor of ``step ** steps`` up and down.
    """

    ranges: Mapping[str, tuple[float, float]]
    population: int
    step: float
    steps: int
    seed: int = 1

    def least(self, misfit: Callable[[Values], float]) -> dict[str, float]:
        """Return the constants with the least misfit, by differential evolution."""
        from scipy.optimize import differential_evolution

        def values(logarithms: Sequence[float]) -> dict[str, float]:
            # Rounded in the search, too, since rounding can carry a value across a claim's bound.
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

        The intervals depend on each other, so this is repeated in several `rounds`.
        """
        values = dict(values)
        for name in [*self.ranges] * rounds:
            values[name] = _rounded(math.sqrt(math.prod(self.plateau(values, name, misses))))
        return values

    def plateau(
        self, values: Values, name: str, misses: Callable[[Values], float]
    ) -> tuple[float, float]:
        """Return the least and the largest value of a constant up to which no more is missed."""
        least_misses, centre = misses(values), values[name]
        low, high = self.ranges[name]

        def end(step: float) -> float:
            reached = centre
            for power in range(1, self.steps + 1):
                value = centre * step**power
                if not low <= value <= high or misses({**values, name: value}) > least_misses:
                    break
                reached = value
            return reached

        return end(1 / self.step), end(self.step)


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")
