"""Memory of Table II by arithmetic, plans as pictures, trades, and the answers that they give."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from torch import Tensor, nn

from tests.memory.tracing.modules import Calling
from workbench import figures
from workbench.memory.dataflow import Dataflow
from workbench.memory.planning import PLANNERS, plan_memory
from workbench.memory.stored_dataflows import stored_dataflow
from workbench.olpb.costs.library import library_graph
from workbench.olpb.paper import memory, titles
from workbench.olpb.paper import trade as trades
from workbench.olpb.paper.table2 import SECONDS, SIDES, TABLE2, TABLE2_TIMES, counted, stated
from workbench.reproduction.claims import claims_of
from workbench.utils.checks import UnknownNameError

SMALL = "squeezenet_cifar"


@pytest.fixture(scope="module")
def table2() -> pl.DataFrame:
    return TABLE2.frame(models=["resnet50"])


@pytest.fixture(scope="module")
def arena() -> pl.DataFrame:
    return memory.arena(SMALL, batch_size=2, planners=tuple(PLANNERS))


def resnet50(side: int) -> dict[str, int]:
    """Numbers that layers of ResNet-50 make of an image, by hand (He et al. 2016, Table 1).

    The stride is in the middle convolution of a block, as in the weights that are common today.
    """
    half = (side + 2 * 3 - 7) // 2 + 1
    pooled = (half + 2 - 3) // 2 + 1
    found = {"convolution": 64 * half**2, "relu": 64 * half**2, "add": 0, "pool": 64 * pooled**2}
    pixels = pooled**2
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            strides = stage > 0 and block == 0
            smaller = ((round(pixels**0.5) - 1) // 2 + 1) ** 2 if strides else pixels
            found["convolution"] += width * pixels + width * smaller + 4 * width * smaller
            found["convolution"] += 4 * width * smaller * (block == 0)  # of the shortcut
            found["relu"] += width * pixels + width * smaller + 4 * width * smaller
            found["add"] += 4 * width * smaller
            pixels = smaller
    return found


def test_every_result_kept_is_the_sum_by_hand(table2: pl.DataFrame) -> None:
    one = resnet50(299)
    full = 6 * one["convolution"] + one["relu"] + one["add"]  # with bias and four of normalisation
    rest = one["pool"] + 3 * 299**2 + 2 * 2048 + 2 * 1000  # input, mean, flattened, linear, bias
    for row in table2.filter(pl.col("counting") != "workbench").iter_rows(named=True):
        size = row["bytes_per_number"]
        assert row["without_bytes"] - row["parameter_bytes"] == size * (full + rest)
    library = table2.row(0, named=True)
    assert library["without_bytes"] / 1e6 == pytest.approx(library["paper_without_mb"], rel=0.01)
    # convolutions have biases in the library; normalisations and the linear layer as everywhere
    assert library["parameter_bytes"] == 4 * (25_557_032 + 53_120 // 2)


def test_plans_lie_between_their_bound_and_every_result(table2: pl.DataFrame) -> None:
    for row in table2.iter_rows(named=True):
        assert row["parameter_bytes"] < row["bound_bytes"] <= row["with_bytes"]
        assert row["with_bytes"] < row["without_bytes"]
    (ours,) = table2.filter(counting="workbench").iter_rows(named=True)
    assert ours["with_bytes"] <= 1.02 * ours["bound_bytes"]


@pytest.mark.parametrize("model", SIDES)
def test_ratios_of_table_2_are_those_of_its_values(model: str) -> None:
    without_mb, with_mb, without_s, build_s, execution_s = (
        stated(model, name) for name in ("without_mb", "with_mb", *SECONDS)
    )
    assert without_mb / with_mb == pytest.approx(stated(model, "memory_ratio"), abs=0.001)
    ratio = (build_s + execution_s) / without_s
    assert ratio == pytest.approx(stated(model, "time_ratio"), abs=0.001)
    assert without_mb / with_mb >= stated(model, "memory_ratio")
    assert ratio <= stated(model, "time_ratio")
    assert build_s + execution_s == pytest.approx(stated(model, "with_s"), abs=0.001)


def test_megabytes_are_those_of_the_librarys_counting(table2: pl.DataFrame) -> None:
    library = table2.filter(counting="library").row(0, named=True)
    for name in ("without", "with"):
        answer: Any = TABLE2.answers[f"olpb.table2.resnet50.{name}_mb"](table2)
        assert answer.ours == library[f"{name}_bytes"] / 1e6
        assert TABLE2.answers[f"olpb.table2.mask_rcnn.{name}_mb"](table2) is None


def blocks(m: Any, x: Tensor) -> Any:
    """A skip, a normalisation, a product with a mask of fewer numbers, and a flattening."""
    y = m.body(x)
    return m.end((y * m.narrow(y)).flatten(1))


def overwritten(flow: Dataflow, name: str) -> list[list[str]]:
    """Makers of what each step of a name may overwrite."""
    return [
        [flow.steps[flow.maker[buffer]].name for buffer in step.overwrites]
        for step in flow.steps
        if step.name == name
    ]


def test_counted_flows_overwrite_by_the_librarys_rules_and_are_planned() -> None:
    body = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
    module = Calling(blocks, body=body, narrow=nn.Conv2d(4, 1, 1), end=nn.Linear(4 * 8 * 8, 3))
    flow = counted(library_graph(module, (2, 8, 8), training=False), 8)
    assert overwritten(flow, "convolution") == [[], []]
    assert overwritten(flow, "dot") == [[]]
    assert overwritten(flow, "relu") == [["add"]]
    assert overwritten(flow, "sub") == [["add"]]  # the convolution's bias
    assert overwritten(flow, "div") == [["sub"]]
    # of the normalisation, and of y and a map of one channel, which has another shape
    assert overwritten(flow, "mul") == [["div"], ["relu"]]
    assert overwritten(flow, "reshape") == [["mul"]]
    assert flow.kept == {len(flow.sizes) - 1}
    # two convolutions with bias, the normalisation, ReLU, product, flattened; linear with bias
    numbers = 8 * 8 * (4 * (2 + 4 + 1 + 1 + 1) + 2) + 2 * 3
    assert flow.sizes.sum() == 8 * numbers
    for planner in PLANNERS:
        assert plan_memory(flow, planner, alignment=1).total_bytes <= 8 * numbers


def test_planners_are_over_the_bound_and_the_workbench_least() -> None:
    frame = memory.PLANNERS_BYTES.frame("smoke")
    for _, rows in frame.group_by("model", "training"):
        by_planner = dict(rows.select("planner", "bytes").iter_rows())
        assert by_planner.keys() == PLANNERS.keys()
        assert by_planner["workbench"] == min(by_planner.values())
        row = rows.row(0, named=True)
        flow = stored_dataflow(row["model"], row["batch_size"], row["training"])
        assert by_planner["none"] == flow.sizes.sum()
        assert (rows["over_bound"] == rows["bytes"] / rows["bound_bytes"]).all()
        assert (rows["over_bound"] >= 1).all()
    assert frame.filter(training=False)["batch_size"].unique().to_list() == [1]


def test_what_is_outside_of_the_block_lies_below_it(arena: pl.DataFrame) -> None:
    flow = stored_dataflow(SMALL, 2, True)
    for planner in PLANNERS:
        outside = arena.filter(pl.col("node").is_null(), planner=planner)
        assert outside.filter(kind="weight")["bytes"].sum() == flow.held_bytes("weight")
        assert (outside["offset"] + outside["bytes"]).max() == 0
        assert outside["offset"].min() == -outside["bytes"].sum()


def test_unknown_models_and_planners_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="workbench"):
        memory.arena(SMALL, planners=("workbenc",))
    with pytest.raises(UnknownNameError, match="unknown model"):
        memory.planners(["squeeze"])
    with pytest.raises(UnknownNameError, match="model of Table II 'vgg16'"):
        TABLE2.frame(models=["vgg16"])
    with pytest.raises(ValueError, match="batch_size"):
        trades.TRADE.frame("smoke", batch_size=0)


def test_less_memory_costs_more_work() -> None:
    trade = trades.TRADE.frame("smoke", batch_size=2)
    assert trade["extra_percent"].is_sorted()
    first, last = trade.row(0, named=True), trade.row(-1, named=True)
    assert (first["extra_percent"], first["recomputed"], first["bytes_percent"]) == (0, 0, 100)
    assert last["extra_percent"] > 0
    assert last["bytes_percent"] == pytest.approx(100 * last["total_bytes"] / first["total_bytes"])


def test_a_budget_is_kept_in_the_arena_on_this_machine() -> None:
    frame = trades.TRADE_TIMES.frame("smoke", batch_size=2)
    whole, less = frame.to_dicts()
    assert less["total_bytes"] <= 0.6 * whole["total_bytes"]
    assert less["arena_bytes"] < whole["arena_bytes"]
    assert less["extra_percent"] > whole["extra_percent"] == 0
    assert min(less["arena_s"], less["plain_s"], whole["arena_s"], whole["plain_s"]) > 0
    assert less["predicted_s"] > whole["predicted_s"] > 0


TIMES = {"model": "resnet50", "build_s": 0.2, "execution_s": 0.5, "plain_s": 1.0}


def answer(claim: str, frame: pl.DataFrame) -> Any:
    figure = TABLE2 if claim.endswith("memory_ratio") else TABLE2_TIMES
    return figure.answers[f"olpb.table2.{claim}"](frame)


def test_answers_are_ratios_of_the_frames(table2: pl.DataFrame) -> None:
    own = {name for name in claims_of("olpb") if name.startswith("olpb.table2.")}
    assert {*TABLE2.answers, *TABLE2_TIMES.answers} == own
    found = answer("resnet50.memory_ratio", table2)
    row = table2.row(0, named=True)
    assert found.ours == row["without_bytes"] / row["with_bytes"]
    assert not found.timed
    assert "-0.5 % off" in found.detail
    assert answer("mask_rcnn.memory_ratio", table2) is None
    seconds = answer("resnet50.time_ratio", pl.DataFrame([TIMES]))
    assert seconds.ours == pytest.approx(0.7)
    assert seconds.timed
    assert answer("mask_rcnn.time_ratio", pl.DataFrame([TIMES])).not_run
    assert answer("resnet50.with_s", pl.DataFrame([TIMES])).ours == pytest.approx(0.7)
    saved = answer("mask_rcnn.time_saved", pl.DataFrame([TIMES | {"model": "mask_rcnn"}]))
    assert saved.ours == pytest.approx(30)
    for name, column in SECONDS.items():
        timed = answer(f"resnet50.{name}", pl.DataFrame([TIMES]))
        assert (timed.ours, timed.timed) == (TIMES[column], True)
        assert answer(f"mask_rcnn.{name}", pl.DataFrame([TIMES])).not_run


def test_the_picture_draws_all_that_can_be_seen(arena: pl.DataFrame) -> None:
    ours = arena.filter(planner="workbench")
    (data,) = memory.draw_arena(ours).to_dict()["datasets"].values()
    high = ours["total_bytes"][0]
    inside = ours.filter(pl.col("node").is_not_null())
    seen = inside.filter(pl.col("bytes") >= memory.SMALLEST * high)
    assert len(seen) < len(inside)
    assert sum(one["from_mb"] >= 0 for one in data) == len(seen)
    below = [one for one in data if one["from_mb"] < 0]
    assert {one["kind"] for one in below} == {"weight", "other"}
    held = ours.filter(pl.col("node").is_null())["bytes"].sum()
    assert sum(one["mb"] for one in below) == pytest.approx(int(held) / 1e6, abs=0.002)


def test_a_planner_of_ones_own_stands_in_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLANNERS, "mine", PLANNERS["best_fit"])
    frame = memory.arena("lenet5", planners=("mine",))
    assert "mine" in figures.svg(memory.draw_arena(frame))


def test_megabytes_are_never_in_powers_of_ten() -> None:
    sizes = (1_437_000_000, 359_400_000, 53_940, 0)
    texts = ["1,437 MB", "359 MB", "0.0539 MB", "0 MB"]
    assert list(map(titles.megabytes, sizes)) == texts
