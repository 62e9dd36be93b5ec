"""Systems that exchange models, each with the defaults of its exchange."""

from workbench.decentralised.model_exchange.ad_psgd import AdPsgd
from workbench.decentralised.model_exchange.choco_sgd import ChocoSgd
from workbench.decentralised.model_exchange.diloco import DiLoCo
from workbench.decentralised.model_exchange.moshpit_sgd import MoshpitSgd
from workbench.decentralised.model_exchange.noloco import NoLoCo
from workbench.dlion.algorithms.system import System
from workbench.training import Sgd

DILOCO = System("DiLoCo", exchange_models=DiLoCo())
LOCAL_SGD = System("Local SGD", exchange_models=DiLoCo(outer=Sgd(1.0)))
NOLOCO = System("NoLoCo", exchange_models=NoLoCo())
CHOCO_SGD = System("CHOCO-SGD", exchange_models=ChocoSgd())
AD_PSGD = System("AD-PSGD", exchange_models=AdPsgd())
MOSHPIT_SGD = System("Moshpit SGD", exchange_models=MoshpitSgd())
