"""Late gradients against exact ones: which rows there are, and what they show."""

from __future__ import annotations

import polars as pl
import pytest

from workbench.olpb.paper import late_gradients


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return late_gradients.DECOUPLED.frame("smoke", nodes=6)


def test_rows(frame: pl.DataFrame) -> None:
    assert dict(frame.schema) == late_gradients.LEARNT
    cases = frame.select("method", "modules").unique(maintain_order=True).rows()
    late = [("dpb", count) for count in late_gradients.MODULES]
    assert cases == [("sequential", None), ("olpb", None), ("bppsa", None), *late]
    assert frame["seed"].unique().sort().to_list() == [1, 2]
    assert frame["reason"].null_count() == len(frame)
    assert frame["iteration"].unique().sort().to_list() == [2, 4, 5]


def test_exact_methods_differ_in_time_alone(frame: pl.DataFrame) -> None:
    learnt = ("seed", "iteration", "loss", "train_top1", "top1")
    plain, olpb, bppsa = (frame.filter(method=name) for name in ("sequential", "olpb", "bppsa"))
    assert plain.select(learnt).equals(olpb.select(learnt))
    assert plain.select(learnt).equals(bppsa.select(learnt))
    for one in (olpb, bppsa):
        assert (one["at_s"] != plain["at_s"]).all()
        assert all(rows["at_s"].is_sorted() for _, rows in one.group_by("seed"))
    late = frame.filter(method="dpb", modules=max(late_gradients.MODULES))
    assert (late["loss"] != plain["loss"]).all()


def test_times_are_those_of_trainings(frame: pl.DataFrame) -> None:
    from workbench import datasets
    from workbench.olpb.training import Setup, train

    data = datasets.load("digits").limit(train=160, test=80, seed=1).fitted((1, 28, 28))
    setup = Setup(
        "lenet5",
        data,
        late_gradients.pool_of(6, 20.0),
        evaluate_every=2,
        random_delays=True,
        operator_flops=late_gradients.OPERATOR_FLOPS,
        seed=1,
    )
    trained = train(setup, "olpb").evaluations
    shown = frame.filter(method="olpb", seed=1)
    assert shown["at_s"].to_list() == trained["at_s"].to_list()
