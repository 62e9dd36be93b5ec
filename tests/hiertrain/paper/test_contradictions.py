"""What the paper's statements need is what the model cannot give, and what it can it gives."""

import pytest

from workbench.hiertrain.paper.contradictions import contradictions
from workbench.hiertrain.paper.cost_model import by_bandwidth
from workbench.hiertrain.paper.figures import FIGURES
from workbench.hiertrain.paper.testbed import MODELS, Constants, Testbed
from workbench.reproduction.claims import tolerance

CLOUD = "hiertrain.fig7.alexnet.all_cloud"


@pytest.mark.parametrize(
    ("claim", "row", "kind"),
    [
        ("fig9.plus_at_low", 0, "data"),
        ("fig7.alexnet.all_cloud", 1, "paper"),
        ("testbed.cloud_over_device", 3, "paper"),
    ],
)
def test_a_paper_contradicts_itself_only_beyond_what_is_near(
    claim: str, row: int, kind: str
) -> None:
    needed, by_near, allowed = (
        contradictions().select("needed", "needed_by_near", "allowed").row(row)
    )
    name = f"hiertrain.{claim}"
    (cause,) = (figure.causes[name] for figure in FIGURES if name in figure.causes)
    assert needed > allowed
    assert cause.kind == kind
    assert (by_near > allowed) == (kind == "paper")
    assert f"{allowed:.3g}" in cause.why


def test_one_link_after_the_other_contradicts_the_speed_ups() -> None:
    frame = contradictions()
    by_near, in_turn = frame["needed_by_near"].to_list(), frame["allowed_in_turn"].to_list()
    assert [needed > allowed for needed, allowed in zip(by_near, in_turn, strict=True)] == [
        *(True, False, False, False)
    ]
    (why,) = (figure.causes[CLOUD].why for figure in FIGURES if CLOUD in figure.causes)
    for number in (by_near[0], in_turn[0], by_near[1]):
        assert f"{number:.4g}" in why or f"{number:.3g}" in why


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("core_gflops", [0.1, 1.0, 8.0, 60.0])
def test_with_both_orders_of_vi_b_jointdnn_plus_is_never_faster(
    model: str, core_gflops: float
) -> None:
    """The derivation behind `testbed.cloud_over_device`, as far off as near allows."""
    near = tolerance("x", 1.0)
    order = 10 * (1 - near)
    for over in (1.0, (1 + near) / (1 - near)):
        constants = Constants(core_gflops / over, core_gflops, order)
        frame = by_bandwidth(Testbed(constants), MODELS[model], bandwidths_mbps=(1.5, 2.0))
        total_s = frame.pivot(on="planner", index="edge_cloud_mbps", values="total_s")
        assert total_s["jointdnn_plus"].to_list() == pytest.approx(total_s["jointdnn"].to_list())


def test_what_the_contradictions_say_of_the_model_is_so() -> None:
    """All-Cloud's ratios are within what they allow, whatever the constants."""
    allowed = contradictions()["allowed"].to_list()
    for constants in (Constants.load(), Constants(5.0, 70.0, 10.0)):
        for model in MODELS:
            frame = by_bandwidth(Testbed(constants), MODELS[model])
            seconds = frame.pivot(on="planner", index="edge_cloud_mbps", values="total_s")
            low, first = (seconds.filter(edge_cloud_mbps=mbps) for mbps in (1.5, 2.5))
            assert low["all_cloud"][0] / first["all_cloud"][0] <= allowed[0]
            assert low["all_cloud"][0] / low["jalad"][0] <= allowed[1]
            assert low["all_cloud"][0] / low["all_edge"][0] <= allowed[2]
