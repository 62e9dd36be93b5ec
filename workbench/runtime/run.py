"""Results of a run, whole or in part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    import polars as pl

    from workbench.runtime.trace import Trace


class LinkUse(NamedTuple):
    """What one link, in one direction, carried.

    `messages` and `bytes` are what it carried to its end, delivered or not; `lost` counts messages
    that nobody received, those cut off or dropped included; `busy_s` includes what was cut off.
    `source` and `target` are names of nodes.
    """

    source: str
    target: str
    messages: int
    bytes: float
    lost: int
    busy_s: float


@dataclass(frozen=True)
class Run:
    """Results of a run.

    Attributes
    ----------
    end_s
        Virtual seconds until the last program and the last message ended, or the run was stopped.
    ended
        ``"done"``; ``"stopped"`` at `until_s`; ``"interrupted"`` by Ctrl-C; ``"failed"`` by an
        exception, ``"deadlock"``: then the error carries this run.
    results
        What each program returned that got so far, by node.
    trace
        What ran when; None unless asked for.
    events
        Events that the kernel processed.
    links
        What each link of the cluster carried.
    """

    end_s: float
    ended: Literal["done", "stopped", "interrupted", "failed", "deadlock"]
    results: Mapping[int, Any]
    trace: Trace | None
    events: int
    links: tuple[LinkUse, ...]

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        return self.ended == "interrupted"

    @property
    def bytes(self) -> float:
        """Bytes that all links carried."""
        return sum(use.bytes for use in self.links)

    def link_table(self) -> pl.DataFrame:
        """One row per link: ``source, target, messages, bytes, lost, busy_s``."""
        import polars as pl

        schema = {
            "source": pl.String,
            "target": pl.String,
            "messages": pl.Int64,
            "bytes": pl.Float64,
            "lost": pl.Int64,
            "busy_s": pl.Float64,
        }
        return pl.DataFrame(self.links, schema=schema, orient="row")

    def __str__(self) -> str:
        return (
            f"{self.ended} after {self.end_s:g} virtual seconds: {len(self.results)} results, "
            f"{self.events:,} events, {self.bytes:,.0f} bytes over {len(self.links)} links"
        )


class SimulationError(RuntimeError):
    """A run that could not go on; `run` holds what it had until then."""

    def __init__(self, message: str, run: Run) -> None:
        super().__init__(message, run)
        self.run = run

    def __str__(self) -> str:
        return str(self.args[0])


class ProgramError(SimulationError):
    """A program raised an exception, which is this error's cause."""


class DeadlockError(SimulationError):
    """Programs wait for messages that nobody will send any more."""
