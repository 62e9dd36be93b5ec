"""What each scale trains: every model has a learner."""

import pytest

from workbench.edgegossip.paper.accuracy import ALL_TECHNIQUES
from workbench.edgegossip.paper.cases import LEARNING
from workbench.edgegossip.paper.testbed import EPOCHS, MODELS, STATED
from workbench.parameters import SCALES


@pytest.mark.parametrize("scale", SCALES)
def test_each_model_has_a_learner(scale: str) -> None:
    learners = LEARNING.at(scale)
    assert tuple(learners) == MODELS
    own = scale == "paper"
    assert [learners[name].learner == name for name in MODELS] == [True, own, own, own]
    assert set(ALL_TECHNIQUES.at(scale)) <= set(MODELS)


def test_the_papers_scale_trains_as_the_paper_does() -> None:
    training = STATED["training"]
    for learner in LEARNING.paper.values():
        assert learner.epochs == EPOCHS
        assert learner.batch_size == training["batch_size"] == 64
        assert learner.learning_rate == training["learning_rate"] == 0.01
