"""Ctrl-C and other signals: the first ends a run in good order, later ones do not disturb that."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def one_interrupt() -> Iterator[None]:
    """Raise `KeyboardInterrupt` at the first Ctrl-C, SIGTERM or SIGHUP; ignore later ones.

    Signals that are ignored already (under ``nohup``, in a script's background) stay ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers, and only it is interrupted
        return

    def interrupt(*_: object) -> None:
        for number in before:
            signal.signal(number, lambda *_: None)
        raise KeyboardInterrupt

    found = {number: signal.getsignal(number) for number in _SIGNALS}
    before = {
        number: handler
        for number, handler in found.items()
        if handler not in (signal.SIG_IGN, None)  # None: set by other than Python
    }
    try:
        for number in before:
            signal.signal(number, interrupt)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
