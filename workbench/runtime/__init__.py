"""What carries plans out, and the record of it."""

from workbench.runtime.trace import Span, Trace

__all__ = ["Span", "Trace"]
