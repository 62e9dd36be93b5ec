"""DLion, and Max N alone (Hong & Chandra 2021, Secs. 3 and 5.2.4).

Deviation: the paper does not say how DLion's own workers wait for each other; here they are at most
five iterations apart, the bound that it gives Hop.
"""

from workbench.dlion.algorithms.knowledge_transfer import Transfer
from workbench.dlion.algorithms.max_n import MaxN, per_link
from workbench.dlion.algorithms.system import Batching, System

DLION = System("DLion", per_link, batching=Batching(), transfer=Transfer())
MAX_10 = System("Max 10", MaxN(10))
