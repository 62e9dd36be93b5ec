"""The paper's experiments (Hong & Chandra 2021, Sec. 5) on its testbed: modules by what they show.

Ctrl-C in one of them raises `workbench.experiments.ExperimentInterrupted`, with the finished rows.
"""

from workbench.dlion.paper import (
    all_systems,
    compared,
    controllers,
    cost_model,
    explanations,
    failures,
    hop,
    studies,
    techniques,
)

FIGURES = (
    cost_model.PREDICTED,
    cost_model.TABLE3,
    cost_model.TABLE2,
    compared.FIG11,
    hop.HOP,
    explanations.FIRST_WEIGHTS,
    compared.FIG13,
    compared.FIG15,
    compared.FIG18,
    compared.FIG12,
    techniques.FIG14,
    techniques.WEIGHTED,
    compared.FIG16,
    compared.FIG17,
    studies.FIG5,
    studies.FIG7,
    studies.FIG9,
    controllers.FIG6,
    controllers.FIG19,
    controllers.BOTH,
    controllers.FIG8,
    controllers.FIG20,
    compared.FIG21,
    cost_model.TABLE1,
    techniques.TECHNIQUES,
    all_systems.ALL_SYSTEMS,
    all_systems.SCALING,
    failures.FAILURES,
    explanations.EXPLANATIONS,
    explanations.CANDIDATES,
)
