"""As in training's tests: one thread, so that sums are always split alike."""

from tests.training.conftest import one_thread  # noqa: F401
