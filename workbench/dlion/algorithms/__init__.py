"""Systems that train without a server, and what they are made of."""

from collections.abc import Mapping

from workbench.dlion.algorithms.ako import AKO
from workbench.dlion.algorithms.baseline import BASELINE
from workbench.dlion.algorithms.dlion import DLION, MAX_10
from workbench.dlion.algorithms.gaia import GAIA
from workbench.dlion.algorithms.hop import HOP
from workbench.dlion.algorithms.system import System
from workbench.dlion.algorithms.top_k import TOP_K
from workbench.dlion.algorithms.weighted_update import WEIGHTINGS

COMPARED = ("baseline", "hop", "gaia", "ako", "dlion")
"""The systems that the paper compares."""

SYSTEMS: dict[str, System] = {
    "baseline": BASELINE,
    "hop": HOP,
    "gaia": GAIA,
    "ako": AKO,
    "max10": MAX_10,
    "dlion": DLION,
    "top_k": TOP_K,
}
"""Systems that exchange gradients, by name; those of the paper first."""

ALGORITHMS: dict[str, Mapping[str, object]] = {"systems": SYSTEMS, "weightings": WEIGHTINGS}

__all__ = ["ALGORITHMS", "COMPARED", "SYSTEMS", "WEIGHTINGS", "System"]
