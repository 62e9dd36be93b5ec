"""The predictor against loops from the paper, and what a slowdown is."""

from __future__ import annotations

import math
from dataclasses import astuple
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles import edgegossip_prediction as oracle
from tests.refusals import refusals
from workbench.edgegossip.prediction.predictor import (
    FORMS,
    LEAST_LEFT,
    Contention,
    Predictor,
    fit,
)

FEATURES = {"linear": 3, "share": 4}
SECONDS = st.floats(1e-6, 1e3)
CONTENTION = st.builds(
    Contention, st.floats(0, 1 - LEAST_LEFT), st.floats(0, 1e9), st.floats(0, 1e9)
)


@st.composite
def predictors(draw: st.DrawFn) -> Predictor:
    form = draw(st.sampled_from(sorted(FORMS)))
    count = FEATURES[form]
    weights = draw(st.lists(st.floats(0, 10), min_size=count, max_size=count))
    cores = draw(st.integers(1, 64))
    scales = draw(st.tuples(st.floats(1, 1e9), st.floats(1, 1e9)))
    return Predictor(form, cores, *scales, tuple(weights), draw(SECONDS), draw(st.floats(0, 0.99)))


def made(rows: int, slowdown: Any, *, noise: float = 0.0, seed: int = 0) -> pl.DataFrame:
    """Samples of a machine of two cores whose true slowdown is known; t_0 is 0.002 s."""
    rng = np.random.default_rng(seed)
    u = rng.random((rows, 3)) * (0.95, 1e7, 1e8)
    seconds = 0.002 * slowdown(u) * np.exp(noise * rng.standard_normal(rows))
    names = ("core", "network_bytes_per_s", "disk_bytes_per_s")
    columns = dict(zip(names, u.T, strict=True))
    return pl.DataFrame({**columns, "seconds_per_sample": seconds, "cores": [2] * rows})


def quadratic(u: Any) -> Any:
    return 1 + 0.8 * u[:, 0] ** 2 + 0.3 * u[:, 2] / 1e8 + 0.5 * u[:, 0] * u[:, 1] / 1e7


def shared(u: Any) -> Any:
    """One thread beside others on two cores."""
    return 1 + 0.2 * u[:, 0] + 0.3 * u[:, 2] / 1e8 + np.maximum(0, 0.5 / (1 - u[:, 0]) - 1)


SAMPLES = made(5, quadratic)


class TestSlowdown:
    @given(predictor=predictors(), u=CONTENTION)
    def test_is_the_weighted_sum(self, predictor: Predictor, u: Contention) -> None:
        scaled = (
            u.core,
            u.network_bytes_per_s / predictor.network_scale,
            u.disk_bytes_per_s / predictor.disk_scale,
        )
        features = oracle.features(predictor.form, scaled, predictor.cores)
        expected = 1.0
        for weight, feature in zip(predictor.weights, features, strict=True):
            expected += weight * feature
        assert predictor.slowdown(u) == pytest.approx(expected, rel=1e-9)
        assert predictor.slowdown(u) >= 1 == predictor.slowdown(Contention())

    @given(predictor=predictors(), several=st.lists(CONTENTION, min_size=1, max_size=4))
    def test_many_at_once_are_the_same_bits(
        self, predictor: Predictor, several: list[Contention]
    ) -> None:
        together = predictor.slowdowns(np.array([astuple(one) for one in several]))
        assert together.tolist() == [predictor.slowdown(one) for one in several]

    @given(predictor=predictors(), u=CONTENTION, v=CONTENTION)
    def test_never_falls_as_contention_rises(
        self, predictor: Predictor, u: Contention, v: Contention
    ) -> None:
        more = Contention(
            max(u.core, v.core),
            max(u.network_bytes_per_s, v.network_bytes_per_s),
            max(u.disk_bytes_per_s, v.disk_bytes_per_s),
        )
        assert predictor.slowdown(more) >= predictor.slowdown(u) * (1 - 1e-12)

    def test_a_machine_that_others_have_filled_slows_but_so_much(self) -> None:
        alone = Predictor("share", 1, 1.0, 1.0, (0, 0, 0, 1), 1.0)
        assert alone.slowdown(Contention(1.0)) == pytest.approx(1 / LEAST_LEFT)


class TestBaseline:
    @given(predictor=predictors(), u=CONTENTION, drift=st.floats(0.1, 10), n=st.integers(0, 12))
    def test_drift_is_followed(
        self, predictor: Predictor, u: Contention, drift: float, n: int
    ) -> None:
        baseline_s, true_s = predictor.baseline_s, drift * predictor.baseline_s
        for _ in range(n):
            baseline_s = predictor.observe(baseline_s, u, true_s * predictor.slowdown(u))
        left = predictor.memory**n * (predictor.baseline_s - true_s)
        assert baseline_s == pytest.approx(true_s + left, rel=1e-9)
        expected = baseline_s * predictor.slowdown(u)
        assert predictor.seconds(baseline_s, u) == pytest.approx(expected, rel=1e-15)


class TestFit:
    def test_finds_a_slowdown_that_the_form_can_express(self) -> None:
        predictor = fit(made(200, shared), "share", ridge=0)
        assert predictor.baseline_s == pytest.approx(0.002, rel=1e-6)
        for u in np.random.default_rng(1).random((20, 3)) * (0.98, 1e7, 1e8):
            assert predictor.slowdown(Contention(*u)) == pytest.approx(shared(u[None])[0], 1e-6)

    def test_noise_moves_the_baseline_neither_up_nor_down(self) -> None:
        """As many samples as the paper's figure has, each off by 5 %: on average within 2 %."""
        found = list[float]()
        for seed in range(100):
            noisy = made(52, lambda u: 1 + u[:, 0], noise=0.05, seed=seed)
            found.append(fit(noisy).baseline_s / 0.002)
        assert np.mean(found) == pytest.approx(1, abs=0.02)

    @given(
        form=st.sampled_from(sorted(FORMS)),
        ridge=st.sampled_from((0.0, 1e-3, 1.0)),
        seed=st.integers(0, 99),
    )
    def test_no_other_numbers_are_better(self, form: str, ridge: float, seed: int) -> None:
        samples = made(30, quadratic, noise=0.2, seed=seed)
        found = fit(samples, form, ridge)
        top = {name: samples[name].max() for name in samples.columns}
        assert found.network_scale == top["network_bytes_per_s"]
        rows = [
            oracle.features(form, (core, network / found.network_scale, disk / found.disk_scale), 2)
            for core, network, disk in samples.select(pl.nth(0, 1, 2)).iter_rows()
        ]
        seconds = samples["seconds_per_sample"].to_list()
        best = [found.baseline_s, *(found.baseline_s * weight for weight in found.weights)]
        least = oracle.penalised(rows, seconds, best, ridge)
        # The objective is convex: no worse than each neighbour along an axis is the certificate.
        for k in range(len(best)):
            for step in (-1e-4, 1e-4):
                other = list(best)
                other[k] = max(0.0, other[k] + step * found.baseline_s)
                assert oracle.penalised(rows, seconds, other, ridge) >= least - 1e-12

    def test_relative_errors_count(self) -> None:
        samples = made(60, quadratic, noise=0.1)
        longer = samples.with_columns(pl.col("seconds_per_sample") * 1000)
        short, long = fit(samples), fit(longer)
        assert long.weights == pytest.approx(short.weights, rel=1e-6, abs=1e-12)
        assert long.baseline_s == pytest.approx(1000 * short.baseline_s)

    def test_what_does_not_slow_has_no_weight(self) -> None:
        faster = fit(made(60, lambda u: 1 - 0.5 * u[:, 0]), "linear")
        assert faster.weights[0] == 0
        unused = made(60, lambda u: 1 + u[:, 0]).with_columns(network_bytes_per_s=pl.lit(0.0))
        found = fit(unused, "linear")
        assert (found.weights[1], found.network_scale) == (0, 1)


def first(**change: Any) -> pl.DataFrame:
    """Samples whose first has other values."""
    rows = made(30, quadratic).to_dicts()
    return pl.DataFrame([rows[0] | change, *rows[1:]])


test_fit_refused = refusals(
    fit,
    {"samples": SAMPLES},
    {
        "samples": {
            "core of sample 0 is nan": [first(core=math.nan), first(core=None)],
            "disk_bytes_per_s of sample 0 is -1.0": [first(disk_bytes_per_s=-1.0)],
            "finite, above 0": [first(seconds_per_sample=bad) for bad in (0.0, math.inf)],
            "core of sample 0 is 1.5; it must be finite, from 0 to 1": [first(core=1.5)],
            r"machines of \[[24], [24]\] cores": [first(cores=4)],
            "4 samples cannot tell the 5 numbers": [SAMPLES.head(4)],
            "no samples": [SAMPLES.clear()],
            "no column core, cores$": [SAMPLES.drop("core", "cores")],
        },
        "ridge": {"ridge": [-1]},
        "form": {"Did you mean 'share'": ["shares"]},
    },
)
test_predictor_refused = refusals(
    Predictor,
    {
        "form": "linear",
        "cores": 1,
        "network_scale": 1.0,
        "disk_scale": 1.0,
        "weights": (1.0, 1.0, 0.0),
        "baseline_s": 1.0,
    },
    {
        "weights": {"needs 3": [(1.0,)], "not negative": [(1.0, -1.0, 0.0)]},
        "cores": {"cores is .* whole number": [0, 1.5]},
        "memory": {"memory is": [1.0, -0.1]},
        "disk_scale": {"disk_scale is": [0.0]},
        "baseline_s": {"baseline_s is": [0.0, math.inf]},
    },
)


def test_samples_without_a_quiet_one_may_not_tell_the_baseline() -> None:
    samples = made(40, lambda u: u[:, 0] ** 2).filter(pl.col("core") > 0.5)
    with pytest.raises(ValueError, match="taken alone"):
        fit(samples, "linear", ridge=0)


test_observation_refused = refusals(
    Predictor("linear", 1, 1.0, 1.0, (0, 0, 0), 1.0).observe,
    {"baseline_s": 1.0, "contention": Contention(), "seconds": 1.0},
    {"seconds": {"positive": [0.0, -1.0, math.nan, math.inf]}},
)
