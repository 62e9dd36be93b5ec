"""Systems that train without a server, and what they are made of."""

from collections.abc import Mapping

from workbench.decentralised.model_exchange.ad_psgd import AdPsgd
from workbench.decentralised.model_exchange.choco_sgd import ChocoSgd
from workbench.decentralised.model_exchange.diloco import DiLoCo
from workbench.decentralised.model_exchange.moshpit_sgd import MoshpitSgd
from workbench.decentralised.model_exchange.noloco import NoLoCo
from workbench.dlion.algorithms.ako import AKO
from workbench.dlion.algorithms.baseline import BASELINE
from workbench.dlion.algorithms.dlion import DLION, MAX_10
from workbench.dlion.algorithms.gaia import GAIA
from workbench.dlion.algorithms.hop import HOP
from workbench.dlion.algorithms.system import System
from workbench.dlion.algorithms.top_k import TOP_K
from workbench.dlion.algorithms.weighted_update import WEIGHTINGS
from workbench.training import Sgd

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
    "diloco": System("DiLoCo", exchange_models=DiLoCo()),
    "local_sgd": System("Local SGD", exchange_models=DiLoCo(outer=Sgd(1.0))),
    "noloco": System("NoLoCo", exchange_models=NoLoCo()),
    "choco_sgd": System("CHOCO-SGD", exchange_models=ChocoSgd()),
    "ad_psgd": System("AD-PSGD", exchange_models=AdPsgd()),
    "moshpit_sgd": System("Moshpit SGD", exchange_models=MoshpitSgd()),
}
"""By name; those of the paper first, those that exchange models last."""

ALGORITHMS: dict[str, Mapping[str, object]] = {"systems": SYSTEMS, "weightings": WEIGHTINGS}

__all__ = ["ALGORITHMS", "COMPARED", "SYSTEMS", "WEIGHTINGS", "System"]
