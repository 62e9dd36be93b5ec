"""A process beside this one that answers lines with lines, and never outlives its block."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO


@dataclass(frozen=True)
class Helper:
    """A running process; `helper` makes one."""

    process: subprocess.Popen[bytes]
    errors: IO[bytes]

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def tell(self, request: bytes) -> None:
        """Write a request, without waiting for its answer."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(request)
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def answer(self) -> str:
        """Wait for the next line that it writes.

        Raises
        ------
        RuntimeError
            It ended instead; the message has the last line of what it said to standard error.
        """
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise self._ended()
        return line.decode().strip()

    def ask(self, request: bytes) -> str:
        """Write a request and wait for its answer."""
        self.tell(request)
        return self.answer()

    def _ended(self) -> RuntimeError:
        status = self.process.wait()
        self.errors.seek(0)
        said = self.errors.read().decode(errors="replace").strip().splitlines()
        why = said[-1] if said else "it said nothing"
        return RuntimeError(
            f"{' '.join(self.process.args[2:])} ended with status {status}: {why}"  # type: ignore
        )


@contextmanager
def helper(module: str, *arguments: str) -> Iterator[Helper]:
    """Run ``python -m module arguments``; it is killed at the end of the block, however that comes.

    It has a session of its own, so an interrupt from the keyboard reaches this process alone,
    which then ends it. Should this process be killed, its standard input ends, which tells it.
    """
    import tempfile

    command = [sys.executable, "-m", module, *arguments]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        try:
            yield Helper(process, errors)
        finally:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
