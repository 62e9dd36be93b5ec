"""A function in a process of its own that answers lines with lines and never outlives its block."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO


@dataclass(frozen=True)
class ChildProcess:
    """A running process; `child_process` makes one."""

    name: str
    process: subprocess.Popen[bytes]
    errors: IO[bytes]

    @property
    def pid(self) -> int:
        """Process id."""
        return self.process.pid

    def send(self, line: str) -> None:
        """Write a line without waiting for the answer."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def receive(self) -> str:
        """Wait for the next line; RuntimeError with its last error message if it ended instead."""
        assert self.process.stdout is not None
        if line := self.process.stdout.readline():
            return line.decode().strip()
        raise self._ended()

    def ask(self, line: str) -> str:
        """Write a line and wait for the answer."""
        self.send(line)
        return self.receive()

    def _ended(self) -> RuntimeError:
        status = self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        reason = lines[-1] if lines else "without a message"
        return RuntimeError(f"the process {self.name} ended with status {status}: {reason}")


@contextmanager
def child_process(function: Callable[..., None], *arguments: str) -> Iterator[ChildProcess]:
    """Run a module's function in a process that is killed at the end of the block.

    The process has a session of its own, so Ctrl-C reaches this process alone, which then ends it.
    `function` must return at the end of standard input, which comes if this process is killed.
    """
    import tempfile

    name = f"{function.__module__}.{function.__qualname__}"
    code = f"import sys; from {function.__module__} import {function.__qualname__} as function; "
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", code + "function(*sys.argv[1:])", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        try:
            yield ChildProcess(name, process, errors)
        finally:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
