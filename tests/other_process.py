"""What another process of Python finds."""

from __future__ import annotations

import os
import subprocess
import sys

from workbench.utils.files import ROOT


def printed(code: str, **environment: str) -> str:
    """Run code in a process of its own, in the repository, and return what it prints."""
    return subprocess.check_output(
        [sys.executable, "-c", code], text=True, cwd=ROOT, env={**os.environ, **environment}
    )
