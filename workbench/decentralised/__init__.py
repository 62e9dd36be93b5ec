"""Training without a server: nodes learn from shards of their own and exchange models with peers.

Two kinds of exchange: GoSGD as published, and one exchange an epoch under a mixing matrix, as
EdgeGossip's paper runs it.

>>> from workbench import decentralised
>>> mixing = decentralised.metropolis_hastings(decentralised.ring(8))
>>> round(mixing.spectral_gap, 3)
0.195
"""

from workbench.decentralised.mixing import Mixing, MixingError, metropolis_hastings
from workbench.decentralised.recorder import EPOCHS
from workbench.decentralised.selecting import EverySample, Learnt, Selecting, View
from workbench.decentralised.topologies import GRAPHS, complete, nearest, random_regular, ring, star
from workbench.decentralised.training import GossipSetup, Trained, TrainingError, train

__all__ = [
    "EPOCHS",
    "GRAPHS",
    "EverySample",
    "GossipSetup",
    "Learnt",
    "Mixing",
    "MixingError",
    "Selecting",
    "Trained",
    "TrainingError",
    "View",
    "complete",
    "metropolis_hastings",
    "nearest",
    "random_regular",
    "ring",
    "star",
    "train",
]
