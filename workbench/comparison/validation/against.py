"""Predictions against corpora: constants from a tenth of the rows, errors of the others.

`calibration` fits the constants again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import polars as pl
from scipy.optimize import least_squares

from workbench.clusters.testbeds import load_calibration
from workbench.comparison.intervals import errors_of, held_out
from workbench.comparison.validation.corpora import CORPORA
from workbench.comparison.validation.corpus import Constants, Corpus, Values
from workbench.datasets.published import data_folder
from workbench.utils.checks import UserError, choose

T = TypeVar("T")

WAYS = {"predicted": "predicted_s", "naive": "naive_s", "nearest": "nearest_s"}
"""Ways of predicting: the cost model, computing alone, and the nearest row fitted on."""

APART = 0.1
"""Least relative difference of two measured times whose order is judged."""

ROBUST = 0.1
"""Error from which on a row counts linearly, not squared, in a fit."""


def default_folder() -> Path:
    """Folder of the corpora: ``$WORKBENCH_DATA/measured``."""
    return data_folder() / "measured"


def validate(name: str, folder: Path | str | None = None, *, fit: bool = False) -> pl.DataFrame:
    """Predict every row of a corpus that is not given.

    Parameters
    ----------
    name
        A corpus of `CORPORA`.
    folder
        Where its table is; `default_folder` by default.
    fit
        Whether to fit the constants on this table's tenth, in place of the frozen ones.

    Returns
    -------
    polars.DataFrame
        The key of each row, its ``set`` and ``role`` (``fit``, ``predict`` or ``apart``),
        ``measured_s``, and seconds and relative error of each of `WAYS`: above 0, the prediction
        is too long.

    Raises
    ------
    UserError
        An unknown corpus; a table that is missing or another; rows without constants.
    """
    corpus = choose("corpus", name, CORPORA)
    rows = corpus.read(Path(folder) if folder else default_folder())
    frozen = load_calibration("validation")["constants"].get(name, {})
    constants = fitted(corpus, rows) if fit else frozen
    return judged(corpus, rows, constants)


def judged(corpus: Corpus, rows: pl.DataFrame, constants: Constants) -> pl.DataFrame:
    """Predictions and errors of rows; see `validate`."""
    for constant in constants_of(corpus, rows):
        if constant not in constants:
            raise UserError(f"{constant!r} has not been fitted yet; --fit fits it on this table")
    seconds = {
        "predicted_s": corpus.predict(rows, constants),
        "naive_s": corpus.naive(rows),
        "nearest_s": nearest(corpus, rows),
    }
    frame = rows.select(
        *corpus.key,
        "role",
        set=pl.col(corpus.groups),
        measured_s=pl.col(corpus.measured),
        **{name: pl.Series(values) for name, values in seconds.items()},
    )
    return frame.with_columns(
        (pl.col(column) / pl.col("measured_s") - 1).alias(f"{way}_error")
        for way, column in WAYS.items()
    )


def constants_of(corpus: Corpus, rows: pl.DataFrame) -> dict[str, tuple[float, float, float]]:
    """Constants of these rows, with guess and bounds; a ``{}`` is filled with each of `by`."""
    return _filled(corpus.constants, corpus.by(rows))


def _filled(constants: Mapping[str, T], values: Sequence[str]) -> dict[str, T]:
    return {
        name.format(value): bounds
        for name, bounds in constants.items()
        for value in (values if "{}" in name else [""])
    }


def fitted(
    corpus: Corpus,
    rows: pl.DataFrame,
    held: Constants | None = None,
    leave_out: Collection[str] = (),
) -> dict[str, float]:
    """Constants by robust least squares of the logarithms of predicted over measured seconds.

    They are fitted on rows of the role ``fit``, without sets to `leave_out`; `held` keep their
    value. A constant that no such row needs keeps its guess.
    """
    of_fit = rows.filter(pl.col("role") == "fit", ~pl.col(corpus.groups).is_in(list(leave_out)))
    if corpus.fit is not None:
        return corpus.fit(of_fit) | dict(held or {})
    bounds, fixed = constants_of(corpus, rows), dict(held or {})
    free = [name for name in bounds if name not in fixed]
    guess, low, high = np.log([bounds[name] for name in free]).T
    measured = of_fit[corpus.measured].to_numpy()

    def constants(logarithms: Values) -> dict[str, float]:
        return dict(zip(free, np.exp(logarithms).tolist(), strict=True)) | fixed

    def misfit(logarithms: Values) -> Values:
        errors: Values = np.log(corpus.predict(of_fit, constants(logarithms)) / measured)
        return errors

    best = least_squares(misfit, guess, bounds=(low, high), loss="soft_l1", f_scale=ROBUST)
    return {name: float(f"{value:.4g}") for name, value in constants(best.x).items()}


def nearest(corpus: Corpus, rows: pl.DataFrame) -> Values:
    """Measured seconds of the nearest other row of the role ``fit``, NaN where none is alike."""
    place = np.log(rows.select(pl.col(corpus.near).cast(pl.Float64)).to_numpy())
    measured, is_fit = rows[corpus.measured].to_numpy(), (rows["role"] == "fit").to_numpy()
    seconds = np.full(len(rows), np.nan)
    for _, group in rows.with_row_index("at").group_by(*corpus.alike):
        at = group["at"].to_numpy()
        known = at[is_fit[at]]
        if not len(known):
            continue
        distance = ((place[at, None] - place[None, known]) ** 2).sum(axis=2)
        distance[at[:, None] == known[None, :]] = np.inf
        best = distance.argmin(axis=1)
        found = np.isfinite(distance[np.arange(len(at)), best])
        seconds[at[found]] = measured[known[best[found]]]
    return seconds


def errors(frame: pl.DataFrame, kind: str = "") -> pl.DataFrame:
    """Mean, median and worst size of errors in percent by set, and of all rows not fitted on.

    ``order`` is the percentage of pairs of rows, measured a tenth apart, that are predicted in
    their order; ``within`` that of rows in the interval of the corpus' `kind`, if it has one. Sets
    that are listed apart count in no other row.
    """
    predicted, listed = frame.filter(role="predict"), frame.filter(pl.col("role") != "fit")
    parts = [(name, listed.filter(set=name)) for name in listed["set"].unique().sort()]
    parts += [("all not fitted on", predicted), ("fitted on", frame.filter(role="fit"))]
    table = []
    for name, rows in parts:
        error = rows["predicted_error"].abs()
        table.append(
            {
                "set": name,
                "rows": len(rows),
                "mean": error.mean(),
                "median": error.median(),
                "worst": error.max(),
                "computing alone": rows["naive_error"].abs().mean(),
                "nearest row": rows["nearest_error"].abs().fill_nan(None).mean(),
                "order": ordered(rows),
                "within": within(rows, kind) if kind else None,
            }
        )
    numbers = pl.col(pl.Float64) * 100
    return pl.DataFrame(table, infer_schema_length=None).with_columns(numbers)


def within(rows: pl.DataFrame, kind: str) -> float | None:
    """Share of rows whose measured time is in the interval of a kind of prediction."""
    interval = errors_of(kind)
    ratio = rows["measured_s"] / rows["predicted_s"]
    inside = ratio.is_between(interval.low, interval.high).to_numpy()
    return float(inside.mean()) if len(inside) else None


def ordered(rows: pl.DataFrame) -> float | None:
    """Share of pairs in a set, measured a tenth apart, that are predicted in their order."""
    right = pairs = 0
    for _, group in rows.group_by("set"):
        measured, predicted = (group[name].to_numpy() for name in ("measured_s", "predicted_s"))
        longer = measured[:, None] >= (1 + APART) * measured[None, :]
        pairs += int(longer.sum())
        right += int((longer & (predicted[:, None] > predicted[None, :])).sum())
    return right / pairs if pairs else None


def left_out(corpus: Corpus, rows: pl.DataFrame) -> pl.DataFrame:
    """Mean error, in percent, of each set by constants that were fitted on the other sets."""
    table = []
    for name in rows[corpus.groups].unique().sort():
        constants = fitted(corpus, rows, leave_out=[name])
        error = judged(corpus, rows, constants).filter(set=name, role="predict")["predicted_error"]
        table.append({"set": name, "mean": mean_percent(error)})
    return pl.DataFrame(table)


def mean_percent(error: pl.Series) -> float:
    """Mean size of errors, in percent."""
    return 100 * float(error.abs().to_numpy().mean())


def ablation(corpus: Corpus, rows: pl.DataFrame) -> pl.DataFrame:
    """Mean error, in percent, of rows not fitted on, with every part and without each."""
    values = corpus.by(rows)
    table = []
    for part, neutral in {"": {}, **corpus.without}.items():
        frame = judged(corpus, rows, fitted(corpus, rows, _filled(neutral, values)))
        error = frame.filter(role="predict")["predicted_error"].abs()
        table.append({"without": part, "mean": mean_percent(error), "worst": 100 * max(error)})
    return pl.DataFrame(table)


def sentences(name: str, table: pl.DataFrame) -> str:
    """Sentences on a table of `errors`."""
    corpus = CORPORA[name]
    (row,) = table.filter(set="all not fitted on").iter_rows(named=True)
    met = "meets" if row["mean"] <= 100 * corpus.goal else "misses"
    others = [f"computing alone is {row['computing alone']:.1f} % off"]
    if row["nearest row"] is not None:
        others.append(f"the nearest row fitted on {row['nearest row']:.1f} %")
    order = ""
    if row["order"] is not None:
        share = f"{row['order']:.1f} % are predicted in their order"
        order = f" Of the pairs that were measured a tenth apart, {share}."
    interval = ""
    if row["within"] is not None:
        errors = errors_of(corpus.kind)
        low, high = (f"{100 / end - 100:+.0f} %" for end in (errors.high, errors.low))
        interval = (
            f" Intervals of `compare` for {corpus.kind} go from {low} to {high}: "
            f"{row['within']:.1f} % of these rows are within, and of all corpora of this kind "
            f"{held_out(corpus.kind):.1f} % within intervals that were computed without them."
        )
    return (
        f"{row['rows']:,} rows that no constant was fitted on are predicted {row['mean']:.2f} % "
        f"off on average, which {met} the goal of {100 * corpus.goal:g} %; {', '.join(others)}."
        f"{order}{interval}"
    )


def found(names: Collection[str] = ()) -> Mapping[str, tuple[Corpus, pl.DataFrame]]:
    """All corpora, or those that are named, with their rows."""
    corpora = {name: choose("corpus", name, CORPORA) for name in names or CORPORA}
    return {name: (corpus, corpus.read(default_folder())) for name, corpus in corpora.items()}
