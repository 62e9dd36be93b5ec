"""All figures of the paper, in the notebook's order, and what they answer together."""

from workbench.edgegossip.paper import accuracy, aggregating, example, prediction, times

FIGURES = (
    times.MODEL_SIZES,
    aggregating.FIG3_TIMES,
    aggregating.FIG3,
    example.FIG4,
    accuracy.FIG5,
    times.FIG6,
    accuracy.FIG6_ACCURACY,
    accuracy.ACCURACY_LOSS,
    aggregating.FIG7,
    times.FIG8,
    prediction.CONTENTION,
    prediction.FIG9,
    prediction.FIG10,
    prediction.FIG11,
    times.FIG12_TIMES,
    accuracy.FIG12,
    accuracy.FIG13,
    accuracy.STRATEGIES_COMPARED,
    accuracy.DROPOUTS,
    times.SENSITIVITY,
)
