"""Patterns that the optimiser looks for: one a file, by name in `PATTERNS`."""

from collections.abc import Mapping

from workbench.olpb.optimiser.patterns.common import common
from workbench.olpb.optimiser.patterns.dead import dead
from workbench.olpb.optimiser.patterns.folding import folding
from workbench.olpb.optimiser.patterns.neutral import neutral
from workbench.olpb.optimiser.patterns.normalisation import normalisation
from workbench.olpb.optimiser.patterns.views import views
from workbench.olpb.optimiser.patterns.writing import writing
from workbench.olpb.optimiser.rewriting import Pattern

PATTERNS: Mapping[str, Pattern] = {
    "neutral": neutral,
    "views": views,
    "common subexpressions": common,
    "dead code": dead,
    "normalisation into convolution": normalisation,
    "addition and ReLU into convolution": writing,
    "constant folding": folding,
}
