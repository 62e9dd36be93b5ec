"""What another process of Python finds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from workbench.utils.files import ROOT


def printed(code: str, *, cwd: Path = ROOT, **environment: str) -> str:
    """Run code in a process of its own, by default in the repository; return what it prints."""
    return subprocess.check_output(
        [sys.executable, "-c", code], text=True, cwd=cwd, env={**os.environ, **environment}
    )
