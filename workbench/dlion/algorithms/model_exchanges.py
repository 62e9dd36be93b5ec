"""Systems that exchange models, each with the defaults of its exchange.

They wait for each other by themselves, where their algorithms do.
"""

from functools import partial

from workbench.decentralised.model_exchange.ad_psgd import AdPsgd
from workbench.decentralised.model_exchange.choco_sgd import ChocoSgd
from workbench.decentralised.model_exchange.diloco import DiLoCo
from workbench.decentralised.model_exchange.moshpit_sgd import MoshpitSgd
from workbench.decentralised.model_exchange.noloco import NoLoCo
from workbench.dlion.algorithms.synchronisation import asynchronous
from workbench.dlion.algorithms.system import System
from workbench.training import Sgd

_system = partial(System, synch_training=asynchronous)

DILOCO = _system("DiLoCo", exchange_models=DiLoCo())
LOCAL_SGD = _system("Local SGD", exchange_models=DiLoCo(outer=Sgd(1.0)))
NOLOCO = _system("NoLoCo", exchange_models=NoLoCo())
CHOCO_SGD = _system("CHOCO-SGD", exchange_models=ChocoSgd())
AD_PSGD = _system("AD-PSGD", exchange_models=AdPsgd())
MOSHPIT_SGD = _system("Moshpit SGD", exchange_models=MoshpitSgd())
