"""All figures of the paper, in the notebook's order, and what they answer together."""

from workbench.olpb.paper import (
    graphs,
    late_gradients,
    memory,
    networks,
    paying,
    scan_example,
    scan_times,
    table2,
    trade,
)

FIGURES = (
    scan_example.FIG5,
    networks.TABLE1,
    graphs.OPERATORS,
    graphs.OPTIMISER,
    memory.ARENA,
    memory.PLANNERS_BYTES,
    table2.TABLE2,
    table2.TABLE2_TIMES,
    trade.TRADE,
    trade.TRADE_TIMES,
    scan_times.FIG9,
    scan_times.FIG10,
    scan_times.FIG11,
    scan_times.FIG12,
    paying.PAYS,
    late_gradients.DECOUPLED,
)
