"""The one class of errors that a user's own input causes."""

from __future__ import annotations


class UserError(ValueError):
    """Something that the user gave cannot be: the message says what is allowed, and what to do.

    Raised where a user's hand touches: constructors of public values, the command line, files. The
    command ends with its message in one line; any other error is a fault of this package, and keeps
    its traceback.
    """
