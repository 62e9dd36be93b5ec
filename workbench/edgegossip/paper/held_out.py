"""How well slowdown is predicted beside jobs of a size that was held out of the fit.

Contention and time are of the same second; future contention is not predicted, as in the paper.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import polars as pl

from workbench.edgegossip.prediction.contention import Contention
from workbench.edgegossip.prediction.predictor import FORMS, RESOURCES, SECONDS, Predictor, fit

PREDICTIONS = {
    "": "predicted_s",
    "followed_": "followed_s",
    "naive_": "naive_s",
    "naive_followed_": "naive_followed_s",
}
"""Columns of predictions, by how the names of what is said of them begin."""


def held_out(measured: pl.DataFrame, form: str = "share_products") -> pl.DataFrame:
    """Predict the samples of each size by a fit to all other sizes, and naively.

    Naive predictions do not look at contention: the mean time of training alone, and that time
    followed as t_0 is, a moving average of times.

    Parameters
    ----------
    measured
        As `profiling_runs` gives it.
    form
        A name in `FORMS`.

    Returns
    -------
    polars.DataFrame
        The samples beside jobs, with ``predicted_s``, by t_0 of the fit, and ``followed_s``, by
        t_0 that follows all earlier samples (`Predictor.observe`); ``naive_s`` and
        ``naive_followed_s``, the same without contention; and how far off each is, in percent of
        the time that was measured: ``error_percent``, ``followed_error_percent``,
        ``naive_error_percent`` and ``naive_followed_error_percent``.

    Raises
    ------
    ValueError
        Less than two sizes; no sample of training alone; what `fit` refuses.
    """
    sizes = [size for size in measured["size_bytes"].unique().sort() if size > 0]
    if len(sizes) < 2:
        raise ValueError(f"samples of the sizes {sizes}; holding one out needs at least two")
    ordered, parts = measured.sort("order"), []
    naive = _predictions(ordered, _without_contention(ordered))
    for size in sizes:
        predictor = fit(ordered.filter(pl.col("size_bytes") != size), form)
        predicted_s, followed_s = _predictions(ordered, predictor)
        columns = {"predicted_s": predicted_s, "followed_s": followed_s}
        columns |= {"naive_s": naive[0], "naive_followed_s": naive[1]}
        named = [pl.Series(name, seconds) for name, seconds in columns.items()]
        parts.append(ordered.with_columns(named).filter(size_bytes=size))
    errors = {
        prefix + "error_percent": 100 * (pl.col(column) / pl.col(SECONDS) - 1).abs()
        for prefix, column in PREDICTIONS.items()
    }
    return pl.concat(parts).with_columns(**errors)


def _without_contention(measured: pl.DataFrame) -> Predictor:
    alone = measured.filter(size_bytes=0)
    if alone.is_empty():
        raise ValueError("no sample of the training alone (size_bytes of 0); measure some")
    alone_s = cast(float, alone[SECONDS].mean())
    return Predictor("linear", alone["cores"][0], 1.0, 1.0, (0.0, 0.0, 0.0), alone_s)


def _predictions(ordered: pl.DataFrame, predictor: Predictor) -> tuple[list[float], list[float]]:
    """Seconds of each sample, by t_0 as it was fitted and by t_0 followed."""
    state, predicted_s, followed_s = predictor.start(), [], []
    for *resources, seconds in ordered.select(*RESOURCES, SECONDS).iter_rows():
        contention = Contention(*resources)
        predicted_s.append(predictor.seconds(predictor.start(), contention))
        followed_s.append(predictor.seconds(state, contention))
        state = predictor.observe(state, contention, seconds)
    return predicted_s, followed_s


def forms(measured: pl.DataFrame) -> pl.DataFrame:
    """Mean error on held-out sizes of each form of RG, and of gradient boosting for comparison.

    Returns
    -------
    polars.DataFrame
        ``form``, ``error_percent`` and, where t_0 is followed, ``followed_error_percent``; null
        with a ``reason`` where a form cannot be fitted.
    """
    rows: list[tuple[object, ...]] = []
    for form in FORMS:
        try:
            found = held_out(measured, form)
        except ValueError as error:
            rows.append((form, None, None, str(error)))
            continue
        means = found.select(pl.col("error_percent", "followed_error_percent").mean()).row(0)
        rows.append((form, *means, None))
    rows.append(("boosting", _boosting_error_percent(measured), None, None))
    percent = dict.fromkeys(("error_percent", "followed_error_percent"), pl.Float64)
    schema = {"form": pl.String, **percent, "reason": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _boosting_error_percent(measured: pl.DataFrame) -> float:
    from sklearn.ensemble import GradientBoostingRegressor

    errors = []
    for size in measured["size_bytes"].unique().sort():
        if size == 0:
            continue
        known = measured.filter(pl.col("size_bytes") != size)
        asked = measured.filter(pl.col("size_bytes") == size)
        trees = GradientBoostingRegressor(random_state=0)
        trees.fit(known.select(RESOURCES).to_numpy(), np.log(known[SECONDS].to_numpy()))
        found_s = np.exp(trees.predict(asked.select(RESOURCES).to_numpy()))
        errors.append(100 * np.abs(found_s / asked[SECONDS].to_numpy() - 1))
    return float(np.concatenate(errors).mean())
