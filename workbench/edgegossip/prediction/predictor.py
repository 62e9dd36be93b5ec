"""Time of a training task under contention: t = t_0 RG(U) (Han et al. 2021, Sec. 3.3).

`fit` finds RG and t_0 from samples of contention and time. `FORMS` turn contention into features,
each 0 without contention and never falling as contention rises. With non-negative weights
RG(U) = 1 + weights . features is therefore at least 1 and rises with each resource, as the paper
demands, without a cut at 1 that least squares could not see.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from workbench.utils.checks import (
    ABOVE_ZERO,
    BELOW_ONE,
    NOT_NEGATIVE,
    UserError,
    at_least,
    between,
    check_fields,
    check_number,
    choose,
)
from workbench.utils.numbers import percent

if TYPE_CHECKING:
    import polars as pl

SECONDS = "seconds_per_sample"

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Contention:
    """Use of the shared resources by all but the training task: U of Han et al. 2021, Table 4.

    Parameters
    ----------
    core
        U^core: share of the time of all cores together, 0 to 1.
    network_bytes_per_s
        U^networkBW: sent and received, also by the loopback (see `host_counters`).
    disk_bytes_per_s
        U^diskBW: read and written.
    """

    core: float = field(default=0.0, metadata=between(0, 1))
    network_bytes_per_s: float = field(default=0.0, metadata=NOT_NEGATIVE)
    disk_bytes_per_s: float = field(default=0.0, metadata=NOT_NEGATIVE)

    def __post_init__(self) -> None:
        check_fields(self)


RESOURCES = tuple(field.name for field in fields(Contention))

LEAST_LEFT = 0.01
"""Least share of all cores' time that is left; with less, a slowdown would be without bound."""


def linear(u: Array, cores: int) -> Array:
    """U itself, (N, 3)."""
    return u


def share(u: Array, cores: int) -> Array:
    """U, and how much longer a task of one thread takes with what is left of a core, (N, 4).

    Once all cores are busy, one thread gets ``cores (1 - U^core)`` of a core.
    """
    left = cores * np.maximum(1 - u[:, 0], LEAST_LEFT)
    return np.column_stack([u, np.maximum(0, 1 / left - 1)])


Form = Callable[[Array, int], Array]
"""Contention (N, 3), network and disk as shares of their scale, and cores -> features (N, F)."""

FORMS: dict[str, Form] = {"linear": linear, "share": share}


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
        Cores of the machine.
    network_scale, disk_scale
        Bytes per second that count as 1.
    weights
        One for each feature of the form, not negative.
    baseline_s
        t_0: seconds for a sample without contention.
    memory
        Weight of the last estimate of t_0 beside one new observation's 1 - memory. The paper only
        says that t_0 is changed dynamically.
    """

    form: str
    cores: int = field(metadata=at_least(1))
    network_scale: float = field(metadata=ABOVE_ZERO)
    disk_scale: float = field(metadata=ABOVE_ZERO)
    weights: tuple[float, ...]
    baseline_s: float = field(metadata=ABOVE_ZERO)
    memory: float = field(default=0.8, metadata=BELOW_ONE)

    def __post_init__(self) -> None:
        check_fields(self)
        form = choose("form", self.form, FORMS)
        object.__setattr__(self, "weights", tuple(map(float, self.weights)))
        features = form(np.zeros((1, 3)), self.cores).shape[1]
        if len(self.weights) != features or not all(0 <= w < math.inf for w in self.weights):
            raise UserError(
                f"weights are {self.weights}; the form {self.form!r} needs {features}, each finite "
                "and not negative"
            )

    def slowdown(self, contention: Contention) -> float:
        """RG(U): how many times as long as without contention; at least 1."""
        u = (contention.core, contention.network_bytes_per_s, contention.disk_bytes_per_s)
        return float(self.slowdowns(np.array([u]))[0])

    def slowdowns(self, uses: Array) -> Array:
        """RG(U) of each U; `uses` has the shape (K, 3), in the order of `RESOURCES`."""
        scaled = uses / (1.0, self.network_scale, self.disk_scale)
        slowdowns = np.ones(len(uses))
        # Added feature by feature, since a product's sums depend on how many rows it has.
        for weight, feature in zip(
            self.weights, FORMS[self.form](scaled, self.cores).T, strict=True
        ):
            slowdowns += weight * feature
        return slowdowns

    def seconds(self, baseline_s: float, contention: Contention) -> float:
        """Predicted seconds for a sample under contention, t = t_0 RG(U)."""
        return baseline_s * self.slowdown(contention)

    def observe(self, baseline_s: float, contention: Contention, seconds: float) -> float:
        """Return the estimate of t_0 after a sample took `seconds` under `contention`.

        t / RG(U) is averaged with exponential forgetting, which follows causes that no counter
        shows: after n observations ``memory ** n`` of the difference is left.
        """
        if not 0 < check_number("seconds", seconds) < math.inf:
            raise UserError(f"seconds is {seconds}; give a positive, finite number")
        observed_s = seconds / self.slowdown(contention)
        return self.memory * baseline_s + (1 - self.memory) * observed_s


def fit(samples: pl.DataFrame, form: str = "share", ridge: float = 1e-3) -> Predictor:
    """Fit a predictor by least squares of relative errors, weights not negative.

    t = a + b . features(U) is solved for a and b, a sample's equation divided by its t; then
    t_0 = a and the weights are b / a. So where no sample was free of contention, t_0 is what the
    form extrapolates to.

    Parameters
    ----------
    samples
        A row for each: columns ``core``, ``network_bytes_per_s``, ``disk_bytes_per_s`` (see
        `Contention`), ``seconds_per_sample`` (t) and ``cores`` (of the machine, all alike).
    form
        A name in `FORMS`.
    ridge
        Weight of b's squares, of features as large as the samples had them, beside the mean
        square of the relative errors; against features that the samples cannot tell apart.

    Raises
    ------
    ValueError
        Columns or numbers that are missing, not finite or negative; samples of unlike machines, too
        few, or all under so much contention that t_0 cannot be told.
    """
    from scipy.optimize import nnls

    choose("form", form, FORMS)
    if not check_number("ridge", ridge) >= 0:
        raise UserError(f"ridge is {ridge}; give a number of at least 0")
    u, seconds, cores = _columns(samples)
    scale = np.array([1.0, *(top if top > 0 else 1.0 for top in u[:, 1:].max(axis=0))])
    features = FORMS[form](u / scale, cores)
    count, unknowns = len(features), features.shape[1] + 1
    if count < unknowns:
        raise UserError(
            f"{count} samples cannot tell the {unknowns} numbers of the form {form!r}; "
            f"give at least {unknowns}, better several times as many, or a simpler form"
        )
    # scikit-learn's Ridge(positive=True) solves the same, but does not always converge.
    relative = np.column_stack([np.ones(count), features]) / seconds[:, None]
    size = np.sqrt((relative**2).mean(axis=0))
    size[size == 0] = 1.0  # such a feature gets no weight, whatever its size
    penalty = np.sqrt(ridge * count) * np.eye(unknowns)[1:]
    wanted = np.concatenate([np.ones(count), np.zeros(len(penalty))])
    solution, _ = nnls(np.vstack([relative / size, penalty]), wanted)
    baseline_s, *weights = (solution / size).tolist()
    if not baseline_s > 0:
        raise UserError(
            f"all {count} samples were taken under contention (the least of cores is "
            f"{percent(u[:, 0].min())}), so the time without cannot be told; add some taken alone"
        )
    of_baseline = tuple(weight / baseline_s for weight in weights)
    _, network, disk = scale.tolist()
    return Predictor(form, cores, network, disk, of_baseline, baseline_s)


def _columns(samples: pl.DataFrame) -> tuple[Array, Array, int]:
    """Contention (N, 3), seconds (N,), and cores."""
    missing = {*RESOURCES, SECONDS, "cores"} - set(samples.columns)
    if missing:
        raise UserError(f"the samples have no column {', '.join(sorted(missing))}")
    if samples.is_empty():
        raise UserError("there are no samples; fit needs a row for each")
    columns = samples.select(*RESOURCES, SECONDS).to_numpy().astype(float)
    fits = np.isfinite(columns) & (columns >= 0)
    fits[:, 0] &= columns[:, 0] <= 1
    fits[:, -1] &= columns[:, -1] > 0
    if not fits.all():
        row, column = np.argwhere(~fits)[0]
        name, rules = (*RESOURCES, SECONDS)[column], ("from 0 to 1", *["at least 0"] * 2, "above 0")
        raise UserError(
            f"{name} of sample {row} is {columns[row, column]}; it must be finite, {rules[column]}"
        )
    cores = samples["cores"].unique().to_list()
    if len(cores) != 1:
        raise UserError(f"the samples come from machines of {cores} cores; fit one for each")
    return columns[:, :-1], columns[:, -1], cores[0]
