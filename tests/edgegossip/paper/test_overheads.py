"""What aggregating and ranking take in trainings: as the simulation finds it, case by case."""

import polars as pl
import pytest

from workbench.edgegossip.paper.balance import with_overheads
from workbench.edgegossip.paper.cases import Case, Learning, deployed, train

POINTS = 480
LEARNING = Learning("lenet5", "digits", POINTS, 20, epochs=3, batch_size=16)
ADDED = ["aggregating_s", "ranking_s", "slowest_ranking_percent"]


def curves(*cases: Case) -> pl.DataFrame:
    """Rows as of trainings of these cases, each with GoSGD's beside it."""
    rows: list[dict[str, object]] = [
        {"method": method, "train_samples": POINTS, "epoch": epoch, "seed": one.seed}
        | {"imbalance": max(one.slower or (1.0,))}
        | {"ratio": one.ratio if method == "edgegossip" else None}
        for one in cases
        for method in ("gosgd", "edgegossip")
        for epoch in (1, LEARNING.epochs)
    ]
    return pl.DataFrame(rows)


def added(*cases: Case) -> pl.DataFrame:
    frame = with_overheads(curves(*cases), cases)
    return frame.filter(method="edgegossip", epoch=LEARNING.epochs).select(ADDED)


@pytest.mark.parametrize("ratio", [5.0, 10.0])
def test_ranking_takes_what_it_takes_in_the_simulation(ratio: float) -> None:
    case = Case("lenet5", ("cpu",) * 4, ratio=ratio, slower=(1.0, 1.0, 3.0, 3.0))
    trained = train(case, LEARNING, trace=True)
    assert trained.run.trace is not None
    spans = trained.run.trace.frame.with_columns(took_s=pl.col("end_s") - pl.col("start_s"))
    later = spans.filter(lane="select").filter(pl.col("label") != "1")
    assert len(later) == 4 * (LEARNING.epochs - 1)
    found = added(case).row(0, named=True)
    assert found["ranking_s"] == pytest.approx(later["took_s"].mean(), rel=1e-9)


def test_slow_platforms_aggregate_longer_and_rank_for_more_of_their_time() -> None:
    equal, unequal = (
        Case("lenet5", ("cpu",) * 4, slower=(1.0, 1.0, factor, factor)) for factor in (1.0, 5.0)
    )
    found = added(equal, unequal)
    few, many = found.iter_rows(named=True)
    one = deployed(equal, POINTS)
    alone_s = [
        platform.speed.seconds_for(seconds, 0.0)
        for platform, seconds in zip(one.platforms, one.aggregating().generation_s, strict=True)
    ]
    assert few["aggregating_s"] == pytest.approx(max(alone_s))
    assert many["aggregating_s"] > 4 * few["aggregating_s"]
    assert many["slowest_ranking_percent"] > 3 * few["slowest_ranking_percent"]


def test_each_seed_has_its_own_and_gosgd_none() -> None:
    cases = [Case("lenet5", seed=seed) for seed in (1, 2)]
    frame = with_overheads(curves(*cases), cases[:1])
    assert frame.filter(method="gosgd").select(ADDED).null_count().row(0) == (4, 4, 4)
    assert frame.filter(method="edgegossip")["ranking_s"].n_unique() == 2
    assert frame.select(curves(*cases).columns).equals(curves(*cases))


def test_nothing_trained_has_the_columns() -> None:
    case = Case("lenet5")
    nothing = with_overheads(curves(case).clear(), [case])
    assert nothing.is_empty()
    assert nothing.schema == with_overheads(curves(case), [case]).schema
