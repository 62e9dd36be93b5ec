"""Results of a measured run, and how late its transfers and its work were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.runtime.run import Run

if TYPE_CHECKING:
    import polars as pl

    from workbench.runtime.measured.records import ArbiterRecord, Record

LATE_S = 0.001
"""What ends so much after its deadline is late."""
MOST_STEAL, MOST_LATE, MOST_LATE_S = 0.02, 0.1, 0.05
"""Of an undisturbed run: steal, share of waits that are late, and their seconds over the run's."""


@dataclass(frozen=True)
class MeasuredRun(Run):
    """Results of a measured run.

    Attributes
    ----------
    end_s, ended, results, trace, events, links
        As of `Run`, in seconds of the clock.
    late
        How much later than they should have programs started (``start``), transfers ended
        (``transfer``), programs woken from computing (``wake``), work itself ended, which took
        longer than it may (``work``), and the arbiter of shared downlinks heard of messages
        (``announcement``): a row for each kind on each node, ``node, kind, count, late, median_s,
        p95_s, worst_s, total_s``. What is over 1 ms late counts as late; of work, whatever took
        longer. The total is that of what was late.
    steal
        Share of the machine's time that other machines on the same hardware took meanwhile.
    clock_error_s
        How far the machines' clocks may be apart: by how sure their offsets are that were found at
        the start and at the end, and how far these differ; 0 on one machine.
    refused
        Connections that could not prove the run's token.
    """

    late: pl.DataFrame
    steal: float
    clock_error_s: float
    refused: int

    @property
    def disturbed(self) -> bool:
        """Whether something else on the machine disturbed the run, so that its times say little.

        Others took more than 2 % of the machine's time; or more than a tenth of its transfers and
        waits were late, or all of them together for more than 5 % of the run.
        """
        import polars as pl

        waits = self.late.filter(pl.col("kind") != "work")
        late, count = int(waits["late"].sum()), int(waits["count"].sum())
        late_s = float(waits["total_s"].sum())
        most_late_s = MOST_LATE_S * self.end_s
        return self.steal > MOST_STEAL or late > MOST_LATE * count or late_s > most_late_s

    def __str__(self) -> str:
        late, count = int(self.late["late"].sum()), int(self.late["count"].sum())
        return (
            f"{self.ended} after {self.end_s:g} measured seconds: {len(self.results)} results, "
            f"{self.bytes:,.0f} bytes over {len(self.links)} links; {late} of {count} deadlines "
            "were late"
        )


def lateness(
    names: Sequence[str], records: Mapping[tuple[int, int], Record], arbitrated: ArbiterRecord
) -> pl.DataFrame:
    """How late things were, by node and kind; see `MeasuredRun`."""
    import polars as pl

    rows = [
        (names[node], "announcement", late_s, late_s > LATE_S) for node, late_s in arbitrated.late_s
    ]
    for (index, _), record in records.items():
        node = names[index]
        rows.append((node, "start", record.began_late_s, record.began_late_s > LATE_S))
        rows += [(node, "transfer", sent.late_s, sent.late_s > LATE_S) for sent in record.transfers]
        for worked in record.worked:
            over_s = worked.took_s - worked.cost_s
            woken_s = worked.end_s - max(worked.due_s, worked.end_s if over_s > 0 else 0.0)
            rows.append((node, "work", over_s, over_s > 0))
            rows.append((node, "wake", woken_s, woken_s > LATE_S))
    schema = {"node": pl.String, "kind": pl.String, "late_s": pl.Float64, "is_late": pl.Boolean}
    late_s = pl.col("late_s")
    return (
        pl.DataFrame(rows, schema=schema, orient="row")
        .group_by("node", "kind", maintain_order=True)
        .agg(
            count=pl.len(),
            late=pl.col("is_late").sum(),
            median_s=late_s.median(),
            p95_s=late_s.quantile(0.95),
            worst_s=late_s.max(),
            total_s=late_s.filter("is_late").sum(),
        )
    )
