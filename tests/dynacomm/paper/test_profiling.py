"""Table II, read from its frame."""

from __future__ import annotations

import polars as pl
import pytest

from tests.expectations import Stored
from workbench.dynacomm.paper import profiling
from workbench.dynacomm.paper.testbed import MODELS


def test_only_what_is_timed_at_full_size_is_missing_at_smoke_scale(kept: Stored) -> None:
    waiting = {claim for claim, answer in kept.answers(kept.frames).items() if answer.not_run}
    speeds = {f"dynacomm.table2.{model}.on" for model in MODELS}
    assert waiting == {"dynacomm.table2.loss", "dynacomm.fig12.exponent", *speeds}


def test_table_2_is_read_from_its_frame(kept: Stored) -> None:
    ratios = dict(zip(MODELS, (1.005, 0.99, 1.025, 1.01), strict=True))
    table = pl.DataFrame({"model": list(ratios), "batch_size": 1, "ratio": list(ratios.values())})
    table = table.with_columns(loss_percent=100 * (1 - 1 / pl.col("ratio")))
    answers = kept.answers({"table2": table})
    worst = max(ratios.values())
    assert answers["dynacomm.table2.loss"].ours == pytest.approx(100 * (1 - 1 / worst))
    assert answers["dynacomm.table2.vgg19.on"].ours == pytest.approx(4.5 / 1.005)


def test_table_2_is_profiled_at_the_papers_batches_at_scale_paper() -> None:
    sizes = profiling.TABLE2.sizes["batch_sizes"].paper
    assert set(MODELS) <= set(sizes)
    assert set(sizes.values()) == {8, 32}
