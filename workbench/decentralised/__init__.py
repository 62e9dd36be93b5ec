"""Training without a server: nodes learn from shards of their own and exchange models with peers.

>>> from workbench import decentralised
>>> mixing = decentralised.metropolis_hastings(decentralised.ring(8))
>>> round(mixing.spectral_gap, 3)
0.195
"""

from workbench.decentralised.coordinator import Coordinated
from workbench.decentralised.exchange import Exchange, MakeExchange, Step
from workbench.decentralised.exchanges import EXCHANGES
from workbench.decentralised.exchanges.ad_psgd import AdPsgd
from workbench.decentralised.exchanges.choco_sgd import ChocoSgd
from workbench.decentralised.exchanges.diloco import DiLoCo
from workbench.decentralised.exchanges.gosgd import GoSgd
from workbench.decentralised.exchanges.gossip import Gossip
from workbench.decentralised.exchanges.moshpit_sgd import MoshpitSgd
from workbench.decentralised.exchanges.noloco import NoLoCo
from workbench.decentralised.mixing import Mixing, MixingError, metropolis_hastings
from workbench.decentralised.recorder import EPOCHS
from workbench.decentralised.selecting import EverySample, LastEpoch, MakeSelector, Selector, View
from workbench.decentralised.topologies import GRAPHS, complete, nearest, random_regular, ring, star
from workbench.decentralised.training import GossipSetup, Trained, TrainingError, train
from workbench.decentralised.worker import Worker

__all__ = [
    "EPOCHS",
    "EXCHANGES",
    "GRAPHS",
    "AdPsgd",
    "ChocoSgd",
    "Coordinated",
    "DiLoCo",
    "EverySample",
    "Exchange",
    "GoSgd",
    "Gossip",
    "GossipSetup",
    "LastEpoch",
    "MakeExchange",
    "MakeSelector",
    "Mixing",
    "MixingError",
    "MoshpitSgd",
    "NoLoCo",
    "Selector",
    "Step",
    "Trained",
    "TrainingError",
    "View",
    "Worker",
    "complete",
    "metropolis_hastings",
    "nearest",
    "random_regular",
    "ring",
    "star",
    "train",
]
