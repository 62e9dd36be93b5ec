"""Exchanges between workers without a server, by name; each is usable in any training."""

from __future__ import annotations

from workbench.decentralised.exchange import MakeExchange
from workbench.decentralised.exchanges.ad_psgd import AdPsgd
from workbench.decentralised.exchanges.choco_sgd import ChocoSgd
from workbench.decentralised.exchanges.diloco import DiLoCo
from workbench.decentralised.exchanges.gosgd import GoSgd
from workbench.decentralised.exchanges.moshpit_sgd import MoshpitSgd
from workbench.decentralised.exchanges.noloco import NoLoCo
from workbench.training import Sgd

EXCHANGES: dict[str, MakeExchange] = {
    "diloco": DiLoCo(),
    "local_sgd": DiLoCo(outer=Sgd(1.0)),
    "noloco": NoLoCo(),
    "choco_sgd": ChocoSgd(),
    "ad_psgd": AdPsgd(),
    "moshpit_sgd": MoshpitSgd(),
    "gosgd": GoSgd(),
}
"""Exchanges of models; beside them `gossip.Gossip`, which needs a mixing matrix."""

TITLES = {
    "diloco": "DiLoCo",
    "local_sgd": "Local SGD",
    "noloco": "NoLoCo",
    "choco_sgd": "CHOCO-SGD",
    "ad_psgd": "AD-PSGD",
    "moshpit_sgd": "Moshpit SGD",
    "gosgd": "GoSGD",
}
"""Names for charts."""
