"""Table I and Fig. 12: what is timed, and what it answers."""

import importlib

import polars as pl
import pytest

from tests.expectations import Stored, assert_tells_every_step
from workbench.clusters import load_testbed
from workbench.dynacomm.paper import planning_time
from workbench.dynacomm.paper.testbed import MODELS, paper_testbed
from workbench.reproduction.claims import paper_value, tolerance
from workbench.reproduction.figure import Figure


def test_the_papers_programme_is_timed_beside_ours(kept: Stored) -> None:
    for figure, column in (("table1", "planner"), ("fig12", "solver")):
        assert set(kept.frames[figure][column]) == {"paper_programme", "dynacomm", "ibatch"}


def test_random_costs_repeat_with_the_seed(kept: Stored) -> None:
    again = planning_time.FIG12.frame("smoke", seed=1)
    assert again.drop("median_ms").equals(kept.frames["fig12"].drop("median_ms"))


def test_windows_are_table_1s(kept: Stored) -> None:
    stated = load_testbed("dynacomm")
    for model in MODELS:
        for way, name in (("fwd", "last_push_ms"), ("bwd", "first_pull_ms")):
            claim = f"table1.{model}.window_{way}"
            assert paper_value(f"dynacomm.{claim}") == stated[name][model]
            assert kept.value(claim) == pytest.approx(stated[name][model], rel=0.1)


def test_every_time_is_read_from_its_frame(kept: Stored) -> None:
    slower = kept.with_value("table1", "mean_ms", 4.2, model="vgg19", planner="ibatch")
    assert kept.value("table1.vgg19.ibatch_fwd", table1=slower) == 4.2
    assert kept.value("table1.vgg19.ibatch_bwd", table1=slower) == 4.2


def test_orders_are_read_from_their_frame(kept: Stored) -> None:
    frame = kept.frames["table1"]
    late = frame.with_columns(window_ms=pl.col("mean_ms") / 2)
    assert kept.value("table1.window") is True
    assert kept.value("table1.window", table1=late) is False
    algorithms = {"paper_programme": "dynacomm", "ibatch": "ibatch"}
    rows = [
        (model, planner, way, paper_value(f"dynacomm.table1.{model}.{name}_{way[0]}wd"))
        for model in MODELS
        for planner, name in algorithms.items()
        for way in planning_time.DIRECTIONS
    ]
    stated = pl.DataFrame(rows, schema=["model", "planner", "direction", "mean_ms"], orient="row")
    for claim in ("order.table1_fwd", "order.table1_bwd"):
        assert kept.value(claim, table1=stated.with_columns(window_ms=14.0)) is True
        assert kept.value(claim, table1=frame.with_columns(mean_ms=1.0)) is False


def test_crossing_is_the_last_size_at_which_the_programme_is_faster(kept: Stored) -> None:
    sizes = kept.frames["fig12"]["layers"].unique().sort()
    faster = kept.with_value("fig12", "median_ms", 0.0, solver="paper_programme", layers=sizes[1])
    slower = kept.with_value("fig12", "median_ms", 99.0, solver="paper_programme")
    for way in ("fwd", "bwd"):
        assert kept.value(f"fig12.crossing_{way}", fig12=faster) == sizes[1]
        assert kept.value(f"fig12.crossing_{way}", fig12=slower) == 0


def test_the_exponent_is_the_slope_of_large_chains_only(kept: Stored) -> None:
    def chains(*layers: int) -> pl.DataFrame:
        rows = [
            (direction, solver, n, 1e-6 * n**exponent)
            for direction in planning_time.DIRECTIONS
            for solver, exponent in (("paper_programme", 2.5), ("ibatch", 1.5))
            for n in layers
        ]
        schema = ["direction", "solver", "layers", "median_ms"]
        return pl.DataFrame(rows, schema=schema, orient="row")

    for layers, exponent in (((100, 200, 400, 800), pytest.approx(2.5)), ((50, 100, 200), None)):
        assert kept.value("fig12.exponent", fig12=chains(*layers)) == exponent


@pytest.mark.parametrize("way", ["fwd", "bwd"])
def test_the_papers_own_times_per_step_put_the_crossing_where_its_cause_says(way: str) -> None:
    layers = {model: paper_testbed().costs(model, 32).layers for model in MODELS}
    ibatch, programme = (
        {model: paper_value(f"dynacomm.table1.{model}.{planner}_{way}") for model in MODELS}
        for planner in ("ibatch", "dynacomm")
    )

    def pairs(deep: int) -> int:
        """Half in the greedy of Alg. 1, half in the one from the last layer."""
        return deep * (deep - 1)

    def steps(deep: int) -> int:
        """Of Alg. 3: n and k up to m."""
        return sum(m * m for m in range(1, deep + 1))

    deepest = layers["resnet152"]
    a_pair = ibatch["resnet152"] / pairs(deepest)
    a_step = programme["resnet152"] / steps(deepest)
    crossing = max(deep for deep in range(2, 400) if pairs(deep) * a_pair > steps(deep) * a_step)
    why = planning_time.FIG12.causes[f"dynacomm.fig12.crossing_{way}"].why
    assert f"at {crossing}" in why
    assert f"{ibatch['resnet152']} and {programme['resnet152']} ms" in why
    stated = paper_value(f"dynacomm.fig12.crossing_{way}")
    is_near = abs(crossing - stated) <= tolerance("count", stated)
    assert is_near == (way == "fwd")
    slower = [model for model in MODELS if ibatch[model] > programme[model]]
    if way == "bwd":  # the crossing that Table I itself shows
        last, first = (layers[model] for model in ("googlenet", "inception_v4"))
        assert slower == ["vgg19", "googlenet"]
        assert last < stated < first
        assert f"{last} layers of GoogLeNet and the {first} of Inception-v4" in why
    else:  # pairs take all of iBatch's time, which grows like their number, or more slowly
        assert slower == [*MODELS]
        assert ibatch["resnet152"] / ibatch["vgg19"] < (deepest / layers["vgg19"]) ** 2


@pytest.mark.parametrize("figure", [planning_time.FIG12, planning_time.TABLE1], ids=lambda f: f.id)
def test_long_experiment_tells_every_step(figure: Figure, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_tells_every_step(lambda: figure.frame("smoke"), monkeypatch)


def test_the_benchmark_of_planners_runs_to_its_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark = importlib.import_module("benchmarks.dynacomm_planners")
    monkeypatch.setattr(benchmark, "SIZES", (4, 8))
    monkeypatch.setattr(benchmark, "median_ms", lambda *_, **__: 1.0)
    benchmark.main()
    assert "slope from 200 layers on, forward, dynacomm: 0.00" in capsys.readouterr().out
