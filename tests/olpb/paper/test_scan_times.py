"""Figures of scans: fitted on Fig. 9 alone, the rest predicted, each with an answer."""

import polars as pl
import pytest

from workbench.olpb.algorithms.schedules import batched
from workbench.olpb.costs.library import library_graph
from workbench.olpb.paper import calibration
from workbench.olpb.paper.networks import TABLE1, nodes_of_layer
from workbench.olpb.paper.scan_times import FIG9, FIG10, FIG11, FIG12
from workbench.olpb.paper.testbed import (
    CURVES,
    MODELS,
    NODES,
    Constants,
    Testbed,
    paper_testbed,
    variant,
)
from workbench.reproduction.claims import Answer, claims_of, paper_value
from workbench.reproduction.figure import Figure, answers_of
from workbench.utils.files import DATA

FIGURES = (TABLE1, FIG9, FIG10, FIG11, FIG12)


@pytest.fixture(scope="module")
def frames() -> dict[str, pl.DataFrame]:
    return {one.id: one.frame("smoke") for one in FIGURES}


def test_the_file_is_what_the_constants_give() -> None:
    stored = DATA / "calibration" / "olpb.toml"
    assert calibration.to_toml(Constants.load()) == stored.read_text()


def test_times_scale_with_their_unit() -> None:
    # All constants and the delay twice as large, all times twice.
    constants = Constants.load()
    doubled = Constants(
        constants.node_gflops / 2, 2 * constants.operator_ms, 2 * constants.dispatch_ms
    )
    for curve in CURVES:
        first = Testbed(constants, delay_factor=20).backward_s("squeezenet", curve)
        second = Testbed(doubled, delay_factor=40).backward_s("squeezenet", curve)
        assert second == pytest.approx(2 * first)


def test_bppsa_has_the_layers_of_table_1_and_takes_them_in_batches() -> None:
    testbed = variant()
    for model in MODELS.values():
        planned, _ = testbed.scan_work(model, "bppsa")
        stated = paper_value(f"olpb.table1.{model}.layers")
        assert planned.elements == library_graph(model).layers
        assert planned.elements == pytest.approx(stated, abs=2)
        assert planned == batched("hillis_steele", planned.elements, NODES)


def test_every_claim_has_an_answer(frames: dict[str, pl.DataFrame]) -> None:
    found = answers_of(FIGURES, frames).by_claim
    wanted = {
        claim
        for claim in claims_of("olpb")
        if claim.split(".")[1] in ("table1", "normalisation", "fig9", "fig10", "fig11", "fig12")
    }
    assert set(found) == wanted
    assert all(one.detail for one in found.values())


def test_constants_are_judged_as_the_figures_are() -> None:
    # Constants are weighed by all curves; Fig. 12 shows scans alone.
    frames = {figure.id: figure.frame("default") for figure in FIGURES[1:]}
    shown = answers_of(FIGURES, frames).by_claim
    weighed = calibration.answers(Constants.load())
    for claim in (*calibration.FITTED, *calibration.PREDICTED):
        assert weighed[claim].ours == pytest.approx(shown[claim].ours), claim


def answer(figure: Figure, claim: str, frame: pl.DataFrame) -> Answer:
    found = figure.answers[claim](frame)
    assert found is not None
    return found


def timed(*rows: tuple[object, ...]) -> pl.DataFrame:
    """Rows of curve, number of nodes, p, batch size, scan and milliseconds."""
    columns = ("method", "nodes", "delay_factor", "batch_size", "scan", "ms")
    frame = pl.DataFrame(rows, columns, orient="row").with_columns(model=pl.lit("squeezenet"))
    return frame.with_columns(backward_s=pl.col("ms") / 1000)


def test_two_levels_save_what_three_take_more_on_32_nodes() -> None:
    frame = timed(
        ("olpb_l2", 4, 20.0, 1, "hillis_steele", 900.0),
        ("olpb_l3", 4, 20.0, 1, "hillis_steele", 800.0),
        ("olpb_l2", 32, 20.0, 1, "hillis_steele", 300.0),
        ("olpb_l3", 32, 20.0, 1, "hillis_steele", 370.0),
    )
    found = answer(FIG10, "olpb.fig10.faster", frame)
    assert found.ours == pytest.approx(70)
    assert "-100 at 4" in found.detail


def test_milliseconds_are_those_at_the_ends_of_the_delays() -> None:
    delays = (("olpb_l2", 5.0, 250.0), ("olpb_l2", 40.0, 500.0), ("bppsa", 5.0, 1.0))
    frame = timed(*((curve, 32, p, 1, "hillis_steele", ms) for curve, p, ms in delays))
    assert answer(FIG11, "olpb.fig11.least", frame).ours == pytest.approx(250)
    assert answer(FIG11, "olpb.fig11.most", frame).ours == pytest.approx(500)
    assert answer(FIG11, "olpb.fig11.olpb", frame).ours == pytest.approx(2)


@pytest.mark.parametrize(("ms", "holds"), [(99.0, True), (101.0, False)])
def test_olpb_is_below_bppsa_and_three_levels_below_two_at_every_number_of_nodes(
    ms: float, holds: bool
) -> None:
    rows = [
        (curve, nodes, 20.0, 1, "hillis_steele", 90.0 if curve == "olpb_l3" else 100.0)
        for curve in ("olpb_l2", "olpb_l3")
        for nodes in (4, 32)
    ]
    bppsa = [("bppsa", 4, 20.0, 1, "hillis_steele", 110.0)]
    bppsa += [("bppsa", 32, 20.0, 1, "hillis_steele", 200.0 - ms)]
    frame = timed(*rows, *bppsa)
    assert answer(FIG10, "olpb.fig10.order", frame).ours is holds
    three = timed(*rows[:3], ("olpb_l3", 32, 20.0, 1, "hillis_steele", ms))
    inception = three.with_columns(model=pl.lit("inception_v3"))
    assert answer(FIG10, "olpb.fig10.level", inception).ours is holds


@pytest.mark.parametrize(("ms", "slower"), [(150.0, True), (250.0, False)])
def test_olpb_rises_slower_by_factors(ms: float, slower: bool) -> None:
    delays = (("bppsa", 5.0, 200.0), ("bppsa", 40.0, 400.0), ("olpb_l2", 5.0, 100.0))
    ends = (("olpb_l2", 40.0, 110.0), ("olpb_l3", 5.0, 100.0), ("olpb_l3", 40.0, ms))
    frame = timed(*((curve, 32, p, 1, "hillis_steele", at) for curve, p, at in (*delays, *ends)))
    assert answer(FIG11, "olpb.fig11.slower.squeezenet", frame).ours is slower
    assert answer(FIG11, "olpb.fig11.rises", frame).ours is True
    falling = frame.with_columns(backward_s=1 / pl.col("backward_s"))
    assert answer(FIG11, "olpb.fig11.rises", falling).ours is False


@pytest.mark.parametrize(("tree_ms", "holds"), [(29.0, True), (31.0, False)])
def test_the_faster_scan_is_so_at_every_batch_size(tree_ms: float, holds: bool) -> None:
    frame = timed(
        ("olpb_l2", 16, 20.0, 10, "hillis_steele", 20.0),
        ("olpb_l2", 16, 20.0, 10, "blelloch", 10.0),
        ("olpb_l2", 16, 20.0, 20, "hillis_steele", 30.0),
        ("olpb_l2", 16, 20.0, 20, "blelloch", tree_ms),
    )
    assert answer(FIG12, "olpb.fig12.faster", frame).ours is holds


def test_a_convolution_has_the_five_nodes_of_figure_3() -> None:
    graph = library_graph("squeezenet")
    assert nodes_of_layer(graph, 4) == 5  # the first after a pooling


def test_a_layer_of_normalisation_is_counted_where_there_is_one() -> None:
    frame = TABLE1.frame(models=["vgg16", "resnet20_cifar"])
    assert frame["normalisation_nodes"].to_list() == [None, 7]
    counted = TABLE1.answers["olpb.normalisation.nodes"]
    assert answer(TABLE1, "olpb.normalisation.nodes", frame).ours == 7
    assert counted(frame[:1]) is None


def test_other_settings_answer_nothing() -> None:
    assert FIG9.at_paper(FIG9.frame("smoke", nodes=8)).is_empty()
    assert FIG12.at_paper(FIG12.frame("smoke", batch_sizes=(10,))).is_empty()


def test_fig_9_is_of_the_slowest(frames: dict[str, pl.DataFrame]) -> None:
    frame = frames["fig9"]
    assert frame.group_by("model").agg(pl.col("percent").max())["percent"].to_list() == [100] * 4
    assert set(frame["method"]) == set(CURVES)
    assert set(frame["nodes"]) == {NODES}
    assert frame.filter(method="dpb")["steps"].null_count() == 4


def test_dpb_waits_for_a_message_of_as_many_milliseconds_as_the_delay_factor() -> None:
    at_once_s, later_s = (variant(delay_factor=p).backward_s("vgg16", "dpb") for p in (0.0, 30.0))
    assert later_s == pytest.approx(at_once_s + 0.030)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="delay_factor"):
        variant(delay_factor=-1.0)
    with pytest.raises(ValueError, match="scan"):
        variant(scan="kogge_stone")
    with pytest.raises(ValueError, match="method"):
        paper_testbed().subtasks("vgg16", "adam")
