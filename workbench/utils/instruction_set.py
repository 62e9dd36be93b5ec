"""The instruction set of numerical kernels, the same on every x86 machine where results are kept.

PyTorch (ATen, oneDNN, MKL), NumPy and the OpenBLAS of NumPy and SciPy choose kernels by what the
processor has, and different kernels round differently. Environment variables limit the choice to
AVX2. Commands whose results are compared bit for bit set them before NumPy and PyTorch are
imported, and the processes that they start inherit them. Importing `workbench` sets nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from workbench.utils.checks import UserError
from workbench.utils.numbers import counted

CHOICE: Final = "WORKBENCH_INSTRUCTION_SET"
"""``native`` leaves the choice to the processor; by default ``avx2``, where there is AVX2."""

# MKL takes AVX2 on Intel's processors only; COMPATIBLE is the one branch with the same bits on
# AMD's.
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
"""Variables of each library."""

VARIABLES: Final = {name: value for library in AVX2.values() for name, value in library.items()}

_NEEDED = {"avx2", "fma", "f16c", "bmi1", "bmi2"}


def fix() -> None:
    """Set the variables that the user has not set; call it before NumPy and PyTorch are imported.

    Threads that wait for each other sleep meanwhile (``OMP_WAIT_POLICY``): several processes
    compute beside each other, and spinning takes the cores that they wait for.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    choice = os.environ.get(CHOICE) or "avx2"
    if choice not in ("avx2", "native"):
        raise UserError(f"{CHOICE} is {choice!r}; give 'avx2' or 'native'")
    if choice == "native" or not _has_avx2():
        return
    for name, value in VARIABLES.items():
        if name == "NPY_DISABLE_CPU_FEATURES" and "NPY_ENABLE_CPU_FEATURES" in os.environ:
            continue  # with both, NumPy cannot be imported
        os.environ.setdefault(name, value)


def record() -> dict[str, str]:
    """Return what a new process uses, by library: ``avx2``, ``native``, or the user's variables."""
    return {library: _limits(variables) for library, variables in AVX2.items()}


def kernels() -> str:
    """Return the kernels of PyTorch in this process, and its threads: ``AVX512, 2 threads``."""
    import torch

    capability = torch.backends.cpu.get_cpu_capability()
    limits = _limits(AVX2["torch"])
    if limits != "native":
        capability += " (limited by the environment)"
    threads = torch.get_num_threads()
    return f"{capability}, {counted(threads, 'thread')}"


def _limits(variables: Mapping[str, str]) -> str:
    limits = {name: os.environ[name] for name in variables if name in os.environ}
    if limits == variables:
        return "avx2"
    return ", ".join(f"{name}={value}" for name, value in limits.items()) or "native"


def _has_avx2() -> bool:
    """Whether the processor has AVX2, by ``/proc/cpuinfo``; False where there is none."""
    try:
        with Path("/proc/cpuinfo").open(encoding="ascii", errors="replace") as lines:
            flags = next((line for line in lines if line.startswith("flags")), "")
    except OSError:
        return False
    return set(flags.split()) >= _NEEDED
