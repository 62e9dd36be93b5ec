"""An answer says something, and what it says is plain."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.claims import Answer


class TestAnswer:
    def test_takes_numpys_values_for_what_they_are(self) -> None:
        holds, number = Answer(np.bool_(True)), Answer(np.float64(1.5))  # type: ignore[arg-type]
        assert holds.ours is True
        assert type(number.ours) is float

    def test_refuses_what_says_nothing(self) -> None:
        with pytest.raises(AssertionError, match="without a value says why"):
            Answer()
        with pytest.raises(AssertionError, match="or did not run; not both"):
            Answer(1.0, not_run="needs the training runtime")
        with pytest.raises(AssertionError, match="ours is nan"):
            Answer(float("nan"))
