"""The paper's figures and tables as frames: one function each (Cai et al. 2021, Sec. V).

`cost_model` computes, `simulated` simulates and trains, `timings` times this machine. Ctrl-C in one
of them raises `workbench.experiments.ExperimentInterrupted`, with the rows that are finished.
"""

from workbench.dynacomm.paper.experiments.cost_model import (
    explanation_errors,
    explanations,
    fig5,
    fig6,
    fig7,
    fig8,
    fig9a,
    fig9b,
    fig11,
    iterations,
)
from workbench.dynacomm.paper.experiments.simulated import (
    POLICIES,
    fig10,
    fig11_simulated,
    replanning,
    replanning_gains,
)
from workbench.dynacomm.paper.experiments.timings import (
    DIRECTIONS,
    fig12,
    slopes,
    table1,
    table2,
    timed,
)
from workbench.experiments.recorded import Recordable

__all__ = [
    "DIRECTIONS",
    "POLICIES",
    "RECORDED",
    "explanation_errors",
    "explanations",
    "fig5",
    "fig6",
    "fig7",
    "fig8",
    "fig9a",
    "fig9b",
    "fig10",
    "fig11",
    "fig11_simulated",
    "fig12",
    "iterations",
    "replanning",
    "replanning_gains",
    "slopes",
    "table1",
    "table2",
    "timed",
]

RECORDED = {
    "fig9a": Recordable(),
    "fig10": Recordable(data=("cifar10",)),
    "fig11_simulated": Recordable(),
    "replanning": Recordable(),
    "fig12": Recordable(derived={"fig12_slopes": slopes}),
    "table1": Recordable(),
    "table2": Recordable(),
}
"""What `workbench record` offers: what a notebook shows or a claim is judged by."""
