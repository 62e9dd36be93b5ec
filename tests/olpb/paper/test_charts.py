"""Every figure of the notebook fits both columns and says what it shows."""

import pytest

from tests.conftest import Smoke
from tests.expectations import printed, stored_frames
from workbench import figures
from workbench.olpb.paper import paying

COST_MODEL = dict.fromkeys(("fig9", "fig10", "fig11", "fig12", "explanations"), "(cost model)")
SAID = {
    "optimiser": "orange: what a pattern removes",
    "graph": "nodes, of which",
    "levels": "CifarNet",
    "arena": "pebble game",
    "planners": "LeNet-5",
    "table2": "Mask R-CNN, 768 px",
    "table2_times": "this machine",
    "trade": "SqueezeNet (CIFAR-10)",
    "trade_times": "predicted by the roofline",
    "pays": "RNN, 1000 steps",
    "decoupled": "OLPB and BPPSA are as one node",
    **COST_MODEL,
}


@pytest.mark.parametrize("figure", SAID)
def test_every_figure_can_be_printed(figure: str, smoke: Smoke) -> None:
    for svg in printed(smoke, "olpb", figure):
        assert SAID[figure] in svg
        assert len(svg) < 1_000_000


def test_the_scan_pays_with_delays_and_dispatches_can_be_printed(smoke: Smoke) -> None:
    svg = figures.svg(paying.draw_pays(stored_frames(smoke, "olpb")["pays"], "speedup"), "double")
    assert "with delays and dispatches" in svg
    assert "by arithmetic" in svg
