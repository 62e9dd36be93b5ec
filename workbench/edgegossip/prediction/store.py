"""Where monitors write contention and the balancer reads it: one SQLite file.

Deviation: Han et al. 2021 use Redis; a file needs no server and outlives both sides. Several
processes may write and read it at once. SQLite does not lock reliably over a network file system,
so platforms on several machines need a store each.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from workbench.edgegossip.prediction.contention import Contention
from workbench.errors import UserError

if TYPE_CHECKING:
    import polars as pl

COLUMNS = ("platform", "at_s", "window_s", "core", "network_bytes_per_s", "disk_bytes_per_s")
_TABLE = """CREATE TABLE IF NOT EXISTS contention (
    platform TEXT NOT NULL, at_s REAL NOT NULL, window_s REAL NOT NULL, core REAL NOT NULL,
    network_bytes_per_s REAL NOT NULL, disk_bytes_per_s REAL NOT NULL)"""
_INDEX = "CREATE INDEX IF NOT EXISTS by_platform ON contention (platform, at_s)"


class Store:
    """Reports of contention, by platform. Closed by hand or as a context manager.

    Parameters
    ----------
    path
        The file; created, with its folder, if missing.

    Raises
    ------
    ValueError
        The file exists and is no store, or is a folder; or it cannot be created or written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        try:
            if self.path.is_dir():
                raise IsADirectoryError("it is a folder")
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # A late report is useless, so the wait for other writers is short. The monitor writes
            # from its own thread; the lock keeps threads apart.
            self._connection = sqlite3.connect(self.path, timeout=5.0, check_same_thread=False)
        except (OSError, sqlite3.OperationalError) as error:
            raise UserError(
                f"no store can be made at {self.path} ({error}); give a file, such as "
                "contention.sqlite, in a folder that may be written"
            ) from error
        try:
            # With the log ahead, a commit does not wait for the disk, which the training's
            # co-runners may be filling; losing the last minute in a power cut is no loss.
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            with self._connection:
                self._connection.execute(_TABLE)
                self._connection.execute(_INDEX)
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise UserError(
                f"{self.path} is no store of contention, or none that may be written ({error}); "
                "give another file"
            ) from error

    def write(self, platform: str, at_s: float, window_s: float, mean: Contention) -> None:
        """Add a report: mean contention over `window_s` seconds to `at_s`, in UTC since 1970."""
        row = (platform, at_s, window_s, mean.core, mean.network_bytes_per_s, mean.disk_bytes_per_s)
        with self._lock, self._connection:
            self._connection.execute("INSERT INTO contention VALUES (?, ?, ?, ?, ?, ?)", row)

    def latest(self) -> dict[str, Contention]:
        """Return the last report of each platform."""
        # Beside MAX, SQLite takes the other columns from the row that has the maximum.
        rows = self._rows(
            "SELECT platform, MAX(at_s), window_s, core, network_bytes_per_s, "
            "disk_bytes_per_s FROM contention GROUP BY platform ORDER BY platform"
        )
        return {str(row[0]): Contention(*row[3:]) for row in rows}

    def history(self) -> pl.DataFrame:
        """Return all reports in the order of time: columns `COLUMNS`."""
        import polars as pl

        schema = {name: pl.String if name == "platform" else pl.Float64 for name in COLUMNS}
        rows = self._rows(f"SELECT {', '.join(COLUMNS)} FROM contention ORDER BY at_s, rowid")
        return pl.DataFrame(rows, schema=schema, orient="row")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _rows(self, query: str) -> Sequence[tuple[float, ...]]:
        with self._lock:
            return self._connection.execute(query).fetchall()
