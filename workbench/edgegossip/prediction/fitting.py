"""Fits RG(U) and t_0 to samples of contention and time (Han et al. 2021, Sec. 3.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from workbench.clusters.checks import check_number
from workbench.edgegossip.prediction.predictor import Predictor
from workbench.edgegossip.prediction.slowdown_forms import FORMS
from workbench.names import choose

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

RESOURCES = ("core", "network_bytes_per_s", "disk_bytes_per_s")
SECONDS = "seconds_per_sample"


def fit(
    samples: pl.DataFrame, form: str = "share_products", ridge: float = 1e-3, memory: float = 0.8
) -> Predictor:
    """Fit a predictor by least squares of relative errors, weights not negative.

    t = a + b . features(U) is solved for a and b, a sample's equation divided by its t, since
    relative errors are what is judged; then t_0 = a and the weights are b / a. So t_0 is found
    where no sample was free of contention, too; but as what the form leads to there, not as what
    was seen.

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
    memory
        Of the predictor.

    Raises
    ------
    ValueError
        Columns that are missing; a number that is missing, not finite or negative; t that is not
        positive; samples of unlike machines, or fewer than there is to be found; or all under so
        much contention that t_0 cannot be told.
    """
    from scipy.optimize import nnls

    choose("form", form, FORMS)
    if not check_number("ridge", ridge) >= 0:
        raise ValueError(f"ridge is {ridge}; give a number of at least 0")
    u, seconds, cores = _checked(samples)
    scale = np.array([1.0, *(top if top > 0 else 1.0 for top in u[:, 1:].max(axis=0))])
    features = FORMS[form](u / scale, cores)
    count, unknowns = len(features), features.shape[1] + 1
    if count < unknowns:
        raise ValueError(
            f"{count} samples cannot tell the {unknowns} numbers of the form {form!r}; "
            f"give at least {unknowns}, better several times as many, or a simpler form"
        )
    relative = np.column_stack([np.ones(count), features]) / seconds[:, None]
    size = np.sqrt((relative**2).mean(axis=0))
    size[size == 0] = 1.0  # such a feature gets no weight, whatever its size
    penalty = np.sqrt(ridge * count) * np.eye(unknowns)[1:]
    found, _ = nnls(
        np.vstack([relative / size, penalty]),
        np.concatenate([np.ones(count), np.zeros(len(penalty))]),
    )
    baseline_s, *weights = found / size
    if not baseline_s > 0:
        raise ValueError(
            f"all {count} samples were taken under contention (the least of cores is "
            f"{u[:, 0].min():.0%}), so the time without cannot be told; add some taken alone"
        )
    return Predictor(
        form,
        cores,
        float(scale[1]),
        float(scale[2]),
        tuple(float(weight / baseline_s) for weight in weights),
        float(baseline_s),
        memory,
    )


def _checked(samples: pl.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """Contention (N, 3), seconds (N,), and cores."""
    missing = {*RESOURCES, SECONDS, "cores"} - set(samples.columns)
    if missing:
        raise ValueError(f"the samples have no column {', '.join(sorted(missing))}")
    if samples.is_empty():
        raise ValueError("there are no samples; fit needs a row for each")
    columns = {name: samples[name].cast(float).to_numpy() for name in (*RESOURCES, SECONDS)}
    for name, column in columns.items():
        wrong = ~(np.isfinite(column) & (column >= 0))
        if name == SECONDS:
            wrong |= column == 0
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            least = "above 0" if name == SECONDS else "at least 0"
            raise ValueError(f"{name} of sample {row} is {column[row]}; it must be finite, {least}")
    if (columns["core"] > 1).any():
        raise ValueError(
            f"core is up to {columns['core'].max()}; it is a share of all cores' time, at most 1"
        )
    cores = samples["cores"].unique().to_list()
    if len(cores) != 1:
        raise ValueError(f"the samples come from machines of {cores} cores; fit one for each")
    u = np.column_stack([columns[name] for name in RESOURCES])
    return u, columns[SECONDS], cores[0]
