"""Which data set an experiment learns from at which scale: one rule for all systems."""

from __future__ import annotations

from workbench.experiments.scales import Scaled

AUTO = "auto"


def data_set(scale: str, paper: str, choice: str = AUTO) -> str:
    """Name the data set to learn from, for `workbench.datasets.load`.

    At ``smoke`` digits; at ``default`` cluttered digits, on which accuracies can be told apart; at
    ``paper`` the paper's own, which `load` fetches, or refuses with what to do. Copies on this
    machine change nothing, so that every machine gets the same results.

    Parameters
    ----------
    scale
        One of `workbench.parameters.SCALES`.
    paper
        What the paper learns from.
    choice
        What the user asks for, at any scale: a name or a path; ``"auto"`` for the above.
    """
    automatic = Scaled(smoke="digits", default="cluttered_digits", paper=paper).at(scale)
    return automatic if choice == AUTO else choice
