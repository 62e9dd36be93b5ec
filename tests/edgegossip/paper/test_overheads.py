"""What ranking takes in trainings, by the cost model: as the simulation finds it."""

import pytest

from workbench.edgegossip.paper.accuracy import _ranking_s
from workbench.edgegossip.paper.cases import Case, Learning, train

LEARNING = Learning("lenet5", "digits", 480, 20, epochs=3, batch_size=16)


@pytest.mark.parametrize("ratio", [5.0, 10.0])
def test_ranking_takes_what_it_takes_in_the_simulation(ratio: float) -> None:
    trained = train(Case("lenet5", ratio=ratio), LEARNING, trace=True)
    assert trained.run.trace is not None
    spans = trained.run.trace.frame.filter(lane="select")
    later = spans.filter(spans["label"] != "1")
    assert len(later) == 4 * (LEARNING.epochs - 1)
    seconds = (later["end_s"] - later["start_s"]).mean()
    assert _ranking_s(ratio, 1, 480, LEARNING.epochs) == pytest.approx(seconds, rel=1e-9)
