"""The paper's figures and tables as frames: one function each (Hong & Chandra 2021, Sec. 5).

`trainings` trains on the simulated testbed, `controllers` looks at what DLion decides meanwhile,
`beyond` asks what the paper does not, `cost_model` computes. Ctrl-C in one of them raises
`workbench.experiments.ExperimentInterrupted`, with the rows that are finished.
"""

from workbench.dlion.paper.experiments.beyond import (
    all_systems,
    explanations,
    failures,
    scaling,
    techniques,
    weightings,
)
from workbench.dlion.paper.experiments.controllers import fig6, fig8, fig19, fig20
from workbench.dlion.paper.experiments.cost_model import hop, predicted, table1, table2, table3
from workbench.dlion.paper.experiments.scales import AT_DEFAULT
from workbench.dlion.paper.experiments.trainings import (
    candidates,
    fig5,
    fig7,
    fig9,
    fig11,
    fig12,
    fig13,
    fig14,
    fig15,
    fig16,
    fig17,
    fig18,
    fig21,
)
from workbench.experiments.recorded import Recordable

__all__ = [
    "RECORDED",
    "all_systems",
    "candidates",
    "explanations",
    "failures",
    "fig5",
    "fig6",
    "fig7",
    "fig8",
    "fig9",
    "fig11",
    "fig12",
    "fig13",
    "fig14",
    "fig15",
    "fig16",
    "fig17",
    "fig18",
    "fig19",
    "fig20",
    "fig21",
    "hop",
    "predicted",
    "scaling",
    "table1",
    "table2",
    "table3",
    "techniques",
    "weightings",
]

RECORDED = dict.fromkeys(
    (
        *("fig5", "fig6", "fig7", "fig8", "fig9", "fig11", "fig12", "fig13", "fig14", "fig15"),
        *("fig16", "fig17", "fig18", "fig19", "fig20", "fig21", "candidates", "techniques"),
        *("all_systems", "explanations", "weightings", "scaling", "failures"),
    ),
    Recordable(data=("cifar10",), at_default=AT_DEFAULT),
)
"""What `workbench record` offers: what a notebook shows or a claim is judged by."""
