"""Why a claim is missed: figures say it in ``causes``, and tests check what they say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from workbench.names import check_name

CAUSES: Mapping[str, str] = {
    "paper": "the paper's own numbers contradict each other",
    "data": "what it takes cannot be had",
    "noise": "the spread over seeds covers the bar",
    "ours": "of our own making, or not explained yet",
}


@dataclass(frozen=True)
class Cause:
    """The cause of a miss, and the derivation or the facts that show it.

    Attributes
    ----------
    kind
        A name in `CAUSES`.
    why
        What a reader can check: arithmetic with the paper's numbers, or what is lacking.
    """

    kind: Literal["paper", "data", "noise", "ours"]
    why: str

    def __post_init__(self) -> None:
        check_name("cause", self.kind, CAUSES)
