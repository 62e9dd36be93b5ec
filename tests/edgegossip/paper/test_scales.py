"""What each scale trains: every model has a learner, larger deployments more epochs."""

import pytest

from workbench.edgegossip.paper.calibration import EPOCHS, MODELS
from workbench.edgegossip.paper.scales import SCALES, Learner
from workbench.edgegossip.paper.testbed import STATED
from workbench.zoo import MODELS as ZOO


@pytest.mark.parametrize("scale", SCALES)
def test_each_model_has_a_learner(scale: str) -> None:
    learners = SCALES[scale].learners
    assert tuple(learners) == MODELS
    own = scale == "paper"
    assert [learners[name].model == name for name in MODELS] == [True, own, own, own]
    assert set(SCALES[scale].all_techniques) <= set(MODELS)
    assert SCALES[scale].fig3[0] in MODELS


def test_alexnet_is_learnt_by_an_alexnet() -> None:
    assert SCALES["default"].learners["alexnet_cifar"].model == "alexnet_small"
    small = ZOO["alexnet_small"]
    assert small.input_shape == ZOO["alexnet_cifar"].input_shape


def test_the_papers_scale_trains_as_the_paper_does() -> None:
    training = STATED["training"]
    for learner in SCALES["paper"].learners.values():
        assert learner.epochs == EPOCHS
        assert learner.batch_size == training["batch_size"] == 64
        assert learner.learning_rate == training["learning_rate"] == 0.01


@pytest.mark.parametrize(("platforms", "epochs"), [(4, 16), (8, 24), (12, 32), (20, 48), (1, 10)])
def test_more_platforms_train_for_more_epochs(platforms: int, epochs: int) -> None:
    assert Learner("lenet5", 16, 16, 0.1).epochs_on(platforms) == epochs


def test_never_no_epoch() -> None:
    assert Learner("lenet5", 1, 16, 0.1).epochs_on(1) == 1
