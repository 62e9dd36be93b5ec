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
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from workbench.edgegossip.prediction.host_counters import Counters, Source, between, host_counters
from workbench.edgegossip.prediction.predictor import Contention
from workbench.utils.checks import UserError
from workbench.utils.files import expanded

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")

INTERVAL_S, WINDOW_S = 1.0, 60.0
"""As in the paper: read once a second, reported once a minute."""

KEPT = 4096
"""Latest readings and reports whose seconds are kept."""


def timed(call: Callable[[], T]) -> tuple[T, float]:
    """Return the result of `call`, and the seconds that it took."""
    began_s = time.perf_counter()
    return call(), time.perf_counter() - began_s


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
        Under which name to report.
    path
        To which file, which `read_reports` reads; None for none. Its folder is made if missing.
    source
        What is read; by default this machine's counters, without what this process and its
        children use of the cores and the disk; ``host_counters(own_network_bytes=...)`` takes off
        what they send and receive, too.
    interval_s, window_s
        Seconds between two readings, and those that a report is the mean of.

    Attributes
    ----------
    sample_s, report_s
        Seconds that the latest readings and reports took.
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
        if not 0 < interval_s <= window_s < math.inf:
            raise UserError(
                f"interval_s is {interval_s:g} and window_s {window_s:g}; "
                "give positive seconds, the window no shorter than the interval"
            )
        if not isinstance(path, str | Path | None):
            raise UserError(f"path is {path!r}; give the path of a file for reports, or None")
        self.platform, self.interval_s = platform, interval_s
        self.path = None if path is None else expanded(path)
        self.sample_s: deque[float] = deque(maxlen=KEPT)
        self.report_s: deque[float] = deque(maxlen=KEPT)
        self._readings = round(window_s / interval_s)
        self._source = source or host_counters()
        self._mean: Contention | None = None
        self._error: BaseException | None = None
        self._stop, self._known = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="contention", daemon=True)

    def mean(self) -> Contention:
        """Return the mean over the last whole window; before there is one, over the first so far.

        Waits for the second reading.
        """
        if self._thread.ident is None:
            raise RuntimeError("the monitor does not watch yet; use it as `with Monitor(...) as m`")
        self._known.wait()
        self._raise()
        if self._mean is None:
            raise RuntimeError(
                f"the monitor ended within {self.interval_s:g} s, before its second reading"
            )
        return self._mean

    def __enter__(self) -> Monitor:
        if self._thread.ident is not None:
            raise RuntimeError("this monitor has watched already; make another Monitor(...)")
        if self.path is not None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.open("a").close()
            except OSError as error:
                raise UserError(
                    f"no reports can be written to {self.path} ({error}); give a file, such as "
                    "reports.jsonl, in a folder that may be written"
                ) from error
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        if error is None:
            self._raise()

    def _raise(self) -> None:
        if self._error is not None:
            raise RuntimeError(f"watching {self.platform} failed: {self._error}") from self._error

    def _watch(self) -> None:
        try:
            self._read_until_stopped()
        except BaseException as error:  # raised again where the user is
            self._error = error
        finally:
            self._known.set()

    def _read_until_stopped(self) -> None:
        first, readings, windows = self._read(), 0, 0
        due_s = time.monotonic() + self.interval_s
        while not self._stop.wait(due_s - time.monotonic()):
            latest, readings = self._read(), readings + 1
            if windows == 0 or readings == self._readings:
                # From the ends alone: so a late write is offset against the earlier count of its
                # process, as it would not be second by second.
                self._mean = between(first, latest)
                self._known.set()
            if readings == self._readings:
                self._report(first, latest)
                first, readings, windows = latest, 0, windows + 1
            # On a grid, so that delays do not add up; missed readings are skipped.
            late = max(0.0, time.monotonic() - due_s)
            due_s += self.interval_s * (1 + int(late / self.interval_s))
        if readings:
            self._report(first, latest)

    def _read(self) -> Counters:
        counters, took_s = timed(self._source)
        self.sample_s.append(took_s)
        return counters

    def _report(self, first: Counters, latest: Counters) -> None:
        if self.path is not None:
            path, window_s, mean = self.path, latest.at_s - first.at_s, between(first, latest)
            _, took_s = timed(lambda: report(path, self.platform, window_s, mean))
            self.report_s.append(took_s)
