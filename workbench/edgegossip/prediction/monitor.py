"""Watches what others use of this machine while a model trains on it (Han et al. 2021, Sec. 3.3).

>>> from workbench.edgegossip.prediction.monitor import Monitor, read_reports
>>> with Monitor("platform 1", "reports.jsonl") as monitor:
...     train()  # yours
...     mean = monitor.mean()
>>> latest = read_reports("reports.jsonl").row(-1, named=True)

Deviation: monitors report to a file, to which several processes may append, where Han et al. use
Redis.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections import deque
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Self

from workbench.edgegossip.prediction.host_counters import Counters, Source, between, host_counters
from workbench.edgegossip.prediction.predictor import Contention
from workbench.utils.checks import UserError, check_number
from workbench.utils.files import expanded

if TYPE_CHECKING:
    import polars as pl

INTERVAL_S, WINDOW_S = 1.0, 60.0
"""Seconds between two readings, and between two reports, as in the paper."""


def report(path: Path, platform: str, window_s: float, mean: Contention) -> None:
    """Append mean contention over the last `window_s` seconds to a file, as a line of JSON."""
    row = {"platform": platform, "at_s": time.time(), "window_s": window_s, **asdict(mean)}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def read_reports(path: str | Path) -> pl.DataFrame:
    """Return all reports in a file as they were written, ``at_s`` in UTC since 1970."""
    import polars as pl

    return pl.read_ndjson(Path(path))


class Monitor:
    """Reads the machine's counters at intervals in a thread, reports window means to a file.

    A context manager, used once. At its end, the last window is reported too. An error in the
    thread is raised where the monitor is next used.

    Parameters
    ----------
    platform
        Name in the reports.
    path
        File of the reports, for `read_reports`; None for none. Its folder is made if missing.
    source
        What is read; by default this machine's counters, without what this process and its
        children use of the cores and the disk.
    interval_s, window_s
        Seconds between two readings, and those that a mean is taken of.
    """

    def __init__(
        self,
        platform: str = "this machine",
        path: str | Path | None = None,
        *,
        source: Source | None = None,
        interval_s: float = INTERVAL_S,
        window_s: float = WINDOW_S,
    ) -> None:
        interval_s = check_number("interval_s", interval_s)
        if not 0 < interval_s <= check_number("window_s", window_s) < math.inf:
            raise UserError(
                f"interval_s is {interval_s:g} and window_s {window_s:g}; "
                "give positive seconds, the window no shorter than the interval"
            )
        if not isinstance(path, str | Path | None):
            raise UserError(f"path is {path!r}; give the path of a file for reports, or None")
        if not (source is None or callable(source)):
            raise UserError(f"source is {source!r}; give a function that returns Counters, or None")
        self.platform, self.interval_s = platform, interval_s
        self.path = None if path is None else expanded(path)
        self._source = source or host_counters()
        self._intervals = round(window_s / interval_s)
        self._window = deque[Counters](maxlen=1 + self._intervals)
        self._error: BaseException | None = None
        self._changed, self._stopped = threading.Condition(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="contention", daemon=True)

    def mean(self) -> Contention:
        """Return the mean over the last window, or the part of it that has passed.

        Waits for the second reading.
        """
        with self._changed:
            self._changed.wait_for(lambda: len(self._window) > 1 or not self._thread.is_alive())
            self._raise()
            if len(self._window) < 2:
                raise RuntimeError(
                    f"the monitor has fewer than two readings, {self.interval_s:g} s apart; use it "
                    "as `with Monitor(...) as monitor`, for longer"
                )
            return between(self._window[0], self._window[-1])

    def __enter__(self) -> Self:
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.open("a").close()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        self._stopped.set()
        self._thread.join()
        if kind is None:
            self._raise()

    def _raise(self) -> None:
        if self._error is not None:
            raise RuntimeError(f"watching {self.platform} failed: {self._error}") from self._error

    def _watch(self) -> None:
        try:
            self._read_until_stopped()
        except BaseException as error:  # raised again where the user is
            self._error = error
        with self._changed:
            self._changed.notify_all()

    def _read_until_stopped(self) -> None:
        unreported, began_s = 0, time.monotonic()
        while True:
            reading = self._source()
            with self._changed:
                self._window.append(reading)
                self._changed.notify_all()
            if unreported == self._intervals:
                self._report(unreported)
                unreported = 0
            # On a grid, so that delays do not add up; missed readings are skipped.
            passed = (time.monotonic() - began_s) / self.interval_s
            if self._stopped.wait(self.interval_s * (1 - passed % 1)):
                break
            unreported += 1
        if unreported:
            self._report(unreported)

    def _report(self, intervals: int) -> None:
        # From the ends of the window alone: so a late write is offset against the earlier count of
        # its process, as it would not be second by second.
        if self.path is not None:
            first, latest = self._window[-1 - intervals], self._window[-1]
            report(self.path, self.platform, latest.at_s - first.at_s, between(first, latest))
