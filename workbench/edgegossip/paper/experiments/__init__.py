"""The paper's figures and tables as frames: one function each (Han et al. 2021, Sec. 4).

`cost_model` computes, `trainings` trains on the simulated testbed, `timings` times aggregation on
this machine and learns from what it makes, `prediction` times training beside other jobs. Ctrl-C in
one of them raises `workbench.experiments.ExperimentInterrupted`, with the rows that are finished.
"""

from workbench.edgegossip.paper.experiments.cost_model import (
    READINGS,
    explanations,
    fig6,
    fig8,
    fig12_times,
    sensitivity,
)
from workbench.edgegossip.paper.experiments.prediction import (
    fig9,
    fig10,
    fig11,
    samples,
    sizes_text,
)
from workbench.edgegossip.paper.experiments.timings import fig3, fig3_times, fig7, table3
from workbench.edgegossip.paper.experiments.trainings import (
    dropouts,
    fig5,
    fig6_accuracy,
    fig12,
    fig13,
    seconds_to_accuracy,
    strategies,
    table,
)
from workbench.edgegossip.paper.frames import seconds_until
from workbench.experiments.recorded import Recordable

__all__ = [
    "READINGS",
    "RECORDED",
    "dropouts",
    "explanations",
    "fig3",
    "fig3_times",
    "fig5",
    "fig6",
    "fig6_accuracy",
    "fig7",
    "fig8",
    "fig9",
    "fig10",
    "fig11",
    "fig12",
    "fig12_times",
    "fig13",
    "samples",
    "seconds_to_accuracy",
    "seconds_until",
    "sensitivity",
    "sizes_text",
    "strategies",
    "table",
    "table3",
]

RECORDED = {
    "fig3": Recordable(data=("mnist",)),
    "fig3_times": Recordable(data=("cifar10",)),
    "fig5": Recordable(data=("cifar10", "mnist")),
    "fig6_accuracy": Recordable(data=("cifar10", "mnist")),
    "fig7": Recordable(data=("cifar10", "mnist")),
    "fig12": Recordable(data=("mnist",)),
    "fig13": Recordable(data=("mnist",)),
    "strategies": Recordable(data=("mnist",)),
    "dropouts": Recordable(data=("mnist",)),
    "samples": Recordable(derived={"fig9": fig9, "fig11": fig11}),
}
"""What `workbench record` offers: what a notebook shows or a claim is judged by."""
