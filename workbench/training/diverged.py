"""What ends a training run whose loss is no number any more."""

from __future__ import annotations


class DivergedError(ArithmeticError):
    """The loss is no finite number any more.

    Attributes
    ----------
    loss
        What it is.
    where
        Whose, and when, in words.
    """

    def __init__(self, loss: float, where: str) -> None:
        super().__init__(f"the loss is {loss} {where}")
        self.loss, self.where = loss, where
