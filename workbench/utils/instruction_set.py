"""The instruction set that numerical kernels use, the same on every x86 machine.

PyTorch (ATen, oneDNN, MKL), NumPy and the OpenBLAS of NumPy and SciPy choose kernels by what the
processor has, and different kernels round differently. Environment variables limit the choice to
AVX2; the processes that this one starts inherit them. NumPy reads its own when it is imported,
PyTorch at its first computation. MKL takes ``AVX2`` on Intel's processors only; ``COMPATIBLE`` is
the one branch with the same bits on AMD's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from workbench.utils.checks import UserError

VARIABLE: Final = "WORKBENCH_INSTRUCTION_SET"
"""``avx2``, or ``native`` for whatever the processor has; by default AVX2 where there is AVX2."""

AVX2: Final[Mapping[str, Mapping[str, str]]] = {
    "torch": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_CBWR": "COMPATIBLE",
    },
    "numpy": {
        "NPY_DISABLE_CPU_FEATURES": "X86_V4,AVX512_ICL,AVX512_SPR",
        "OPENBLAS_CORETYPE": "Haswell",
    },
}
"""What is set for each library."""

_NEEDED = {"avx2", "fma", "f16c", "bmi1", "bmi2"}
_NUMPYS_OPPOSITE = "NPY_ENABLE_CPU_FEATURES"  # with both, NumPy cannot be imported

late: dict[str, str] = {}
"""Libraries that had chosen their kernels before `fix` -> what is known of their choice."""


def fix() -> None:
    """Set the variables that the user has not set; called when `workbench` is imported.

    Raises ValueError: an unknown instruction set, or one that this machine lacks.
    """
    if _chosen() == "native":
        return
    wanted = dict(AVX2["torch"])
    if _NUMPYS_OPPOSITE not in os.environ:
        wanted |= AVX2["numpy"]
    missing = {name for name in wanted if name not in os.environ}
    os.environ.update({name: wanted[name] for name in missing})
    if "numpy" in sys.modules and missing & AVX2["numpy"].keys():
        late["numpy"] = "native: imported before workbench"
    torch = sys.modules.get("torch")
    if torch is not None and missing & AVX2["torch"].keys():
        capability = torch.backends.cpu.get_cpu_capability()
        if capability != "AVX2":
            late["torch"] = f"{capability.lower()}: computed before workbench was imported"


@contextmanager
def native() -> Iterator[None]:
    """Let processes that start meanwhile use what the processor has, unless the user chose."""
    before = dict(os.environ)
    if not os.environ.get(VARIABLE):
        for name, value in (pair for one in AVX2.values() for pair in one.items()):
            if os.environ.get(name) == value:
                del os.environ[name]
        os.environ[VARIABLE] = "native"
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def record(*, new_process: bool = False) -> dict[str, str]:
    """Return the instruction set of each library, ``"avx2"`` where it is fixed.

    With `new_process` that of a process that this one starts, where nothing was imported before.
    """
    chosen = _chosen()
    if chosen == "native" and not _has_avx2():
        chosen = f"native: no AVX2 ({os.uname().machine})"
    found = {}
    for library, variables in AVX2.items():
        if library in late and not new_process:
            found[library] = late[library]
            continue
        names = [*variables, _NUMPYS_OPPOSITE] if library == "numpy" else list(variables)
        expected = variables if chosen == "avx2" else {}
        own = [
            f"{name}={os.environ[name]}"
            for name in names
            if name in os.environ and os.environ[name] != expected.get(name)
        ]
        found[library] = ", ".join([chosen, *own])
    return found


def _chosen() -> str:
    chosen = os.environ.get(VARIABLE, "").lower() or ("avx2" if _has_avx2() else "native")
    if chosen not in ("avx2", "native"):
        raise UserError(f"{VARIABLE} is {chosen!r}; give 'avx2' or 'native'")
    if chosen == "avx2" and not _has_avx2():
        raise UserError(f"{VARIABLE} is 'avx2', which this machine lacks; give 'native'")
    return chosen


def _has_avx2() -> bool:
    """Whether Linux says so; elsewhere nothing is fixed."""
    try:
        with Path("/proc/cpuinfo").open(encoding="ascii", errors="replace") as lines:
            flags = next((line for line in lines if line.startswith("flags")), "")
    except OSError:
        return False
    return set(flags.split()) >= _NEEDED
