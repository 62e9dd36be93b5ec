"""Fig. 6 measured: what answers its claim, and what its chart says."""

from __future__ import annotations

import polars as pl
import pytest
from workbench.hiertrain.paper.measured import FIG6_MEASURED, MEASURED, draw_measured, farthest

from workbench.hiertrain.paper.testbed import BATCH_SIZE, MODELS, PAPER
from workbench.reproduction.claims import Answer
from workbench.reproduction.figure import answers_of

CLAIM = "hiertrain.fig6.validity"


def measured(*rows: tuple[float, float, bool], **setting: object) -> pl.DataFrame:
    """Runs that were predicted to take 10 s and simulated to take 9: Mbit/s, seconds, disturbed."""
    fixed = {"model": MODELS["alexnet"], **PAPER, "repetition": 0, **setting}
    runs = [
        fixed
        | {"edge_cloud_mbps": mbps, "predicted_s": 10.0, "simulated_s": 9.0}
        | {"measured_s": seconds, "difference_percent": 10 * seconds - 100, "disturbed": disturbed}
        for mbps, seconds, disturbed in rows
    ]
    return pl.DataFrame(runs, schema=MEASURED)


def answer(frame: pl.DataFrame) -> Answer | None:
    return answers_of([FIG6_MEASURED], {"fig6_measured": frame}).by_claim.get(CLAIM)


def test_the_farthest_median_counts_either_way() -> None:
    low = measured((1.5, 9.9, False), (3.0, 8.0, False), (3.0, 8.2, False), (3.0, 20.0, False))
    found = answer(low)
    assert found is not None
    assert found.ours == pytest.approx(-18.0)
    assert found.timed
    high = answer(measured((1.5, 9.9, False), (3.0, 13.0, False)))
    assert high is not None
    assert high.ours == pytest.approx(30.0)
    assert "+44.4 % from simulated" in high.detail


def test_disturbed_runs_count_only_where_there_are_no_others() -> None:
    mixed, alone = (
        answer(measured((3.0, 9.0, False), (3.0, 30.0, True))),
        answer(measured((3.0, 30.0, True))),
    )
    assert mixed is not None
    assert alone is not None
    assert mixed.ours == pytest.approx(-10.0)
    assert alone.ours == pytest.approx(200.0)
    assert "disturbed" in alone.detail


@pytest.mark.parametrize("other", [{"batch_size": BATCH_SIZE // 2}, {"device_edge_mbps": 10.0}])
def test_another_setting_answers_nothing(other: dict[str, object]) -> None:
    assert answer(measured((3.0, 9.0, False), **other)) is None


def test_the_chart_says_how_far_both_are_off() -> None:
    frame = measured((1.5, 9.5, False), (3.0, 9.0, False), (5.0, 30.0, True))
    assert farthest(frame.filter(disturbed=True), "simulated_s") == pytest.approx(100 * 21 / 9)
    title = str(draw_measured(frame).to_dict()["title"])
    assert "measured on one machine" in title
    assert "2 of 3 runs" in title
    assert "medians at most -10.0 % from the cost model and +5.6 % from the simulation" in title
