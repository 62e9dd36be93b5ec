"""Runs worker programs in virtual time, and the record of it."""

from workbench.runtime.context import Context, Program, Task
from workbench.runtime.faults import (
    Crash,
    Fault,
    LinkDown,
    Lossy,
    Restart,
    SlowDown,
    draw_faults,
)
from workbench.runtime.host import CutOffWarning
from workbench.runtime.messages import Message, Transfer
from workbench.runtime.run import DeadlockError, ProgramError, Run, SimulationError
from workbench.runtime.simulation import simulate
from workbench.runtime.threads import Synchronized
from workbench.runtime.trace import Span, Trace

__all__ = [
    "Context",
    "Crash",
    "CutOffWarning",
    "DeadlockError",
    "Fault",
    "LinkDown",
    "Lossy",
    "Message",
    "Program",
    "ProgramError",
    "Restart",
    "Run",
    "SimulationError",
    "SlowDown",
    "Span",
    "Synchronized",
    "Task",
    "Trace",
    "Transfer",
    "draw_faults",
    "simulate",
]
