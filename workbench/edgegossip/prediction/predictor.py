"""How long a training task takes under contention: t = t_0 RG(U) (Han et al. 2021, Sec. 3.3)."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np

from workbench.clusters.checks import check_number, whole
from workbench.edgegossip.prediction.contention import Contention
from workbench.edgegossip.prediction.slowdown_forms import FORMS
from workbench.names import choose


@dataclass(frozen=True)
class Baseline:
    """What is known of t_0, the state of a prediction.

    Parameters
    ----------
    seconds
        t_0: seconds for a sample without contention.
    observed
        How many observations it has seen.

    Raises
    ------
    ValueError
        Seconds that are not positive.
    """

    seconds: float
    observed: int = 0

    def __post_init__(self) -> None:
        _positive("seconds", self.seconds)


@dataclass(frozen=True)
class Predictor:
    """A regression of slowdown on contention, and t_0 as it was when that was fitted.

    `fit` makes one. It holds for the machine and the task of its samples; beyond the contention
    that these saw, it goes on rising as its form does.

    Parameters
    ----------
    form
        A name in `FORMS`.
    cores
        Of the machine.
    network_scale, disk_scale
        Bytes per second that count as 1.
    weights
        One for each feature of the form, not negative.
    baseline_s
        t_0: seconds for a sample without contention.
    memory
        Weight of what was known of t_0 beside one new observation's 1 - memory; from 0 to less
        than 1. The paper only says that t_0 is changed dynamically.

    Raises
    ------
    ValueError
        A number that cannot be, another number of weights than of features.
    """

    form: str
    cores: int
    network_scale: float
    disk_scale: float
    weights: tuple[float, ...]
    baseline_s: float
    memory: float = 0.8

    def __post_init__(self) -> None:
        form = choose("form", self.form, FORMS)
        cores = whole(self.cores)
        if cores is None or cores < 1:
            raise ValueError(f"cores is {self.cores!r}; give a whole number of at least 1")
        object.__setattr__(self, "weights", tuple(map(float, self.weights)))
        features = form(np.zeros((1, 3)), cores).shape[1]
        if len(self.weights) != features or not all(0 <= w < math.inf for w in self.weights):
            raise ValueError(
                f"weights are {self.weights}; the form {self.form!r} needs {features}, each finite "
                "and not negative"
            )
        for name in ("network_scale", "disk_scale", "baseline_s"):
            _positive(name, getattr(self, name))
        if not 0 <= check_number("memory", self.memory) < 1:
            raise ValueError(f"memory is {self.memory}; give a number from 0 to less than 1")

    def slowdown(self, contention: Contention) -> float:
        """RG(U): how many times as long as without contention; at least 1."""
        scales = (1.0, self.network_scale, self.disk_scale)
        u = (contention.core, contention.network_bytes_per_s, contention.disk_bytes_per_s)
        features = FORMS[self.form](np.divide([u], scales), self.cores)
        return float(1 + features[0] @ np.array(self.weights))

    def start(self) -> Baseline:
        """Return what is known of t_0 before any observation."""
        return Baseline(self.baseline_s)

    def seconds(self, state: Baseline, contention: Contention) -> float:
        """Return t, the seconds predicted for a sample under contention: t_0 RG(U)."""
        return state.seconds * self.slowdown(contention)

    def observe(self, state: Baseline, contention: Contention, seconds: float) -> Baseline:
        """Return the state after a sample took `seconds` under `contention`.

        What t_0 must have been, t / RG(U), is averaged with exponential forgetting, so that a
        machine that is slowed by what no counter shows is followed: after n observations
        ``memory ** n`` of the difference is left.

        Raises
        ------
        ValueError
            Seconds that are not positive.
        """
        found_s = _positive("seconds", seconds) / self.slowdown(contention)
        following_s = self.memory * state.seconds + (1 - self.memory) * found_s
        return Baseline(following_s, state.observed + 1)

    def to_toml(self) -> str:
        """Return it as TOML; `from_toml` reads it, to the last bit."""
        lines = [
            f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value!r}"
            for name, value in asdict(self).items()
            if name != "weights"
        ]
        return "\n".join([*lines, f"weights = {list(self.weights)!r}", ""])

    @classmethod
    def from_toml(cls, text: str) -> Predictor:
        """Return the predictor that `to_toml` wrote.

        Raises
        ------
        ValueError
            Something else.
        """
        try:
            return cls(**tomllib.loads(text))
        except TypeError as error:
            raise ValueError(f"this TOML describes no predictor ({error})") from error


def throughput(seconds: Iterable[float]) -> float:
    """Return p, the samples per second of a platform: the sum of 1 / t_i over its executors.

    Parameters
    ----------
    seconds
        t_i: seconds that each executor takes for a sample.

    Raises
    ------
    ValueError
        No executor, or seconds that are not positive.
    """
    each = [_positive("seconds", one) for one in seconds]
    if not each:
        raise ValueError("a platform without executors has no throughput; give one's seconds")
    return math.fsum(1 / one for one in each)


def _positive(name: str, given: object) -> float:
    value = check_number(name, given)
    if not 0 < value < math.inf:
        raise ValueError(f"{name} is {value}; give a positive, finite number")
    return value
