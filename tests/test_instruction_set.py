"""The same bits on every x86 machine: kernels are fixed before they are chosen."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

from tests.reproduction.helpers import write_notebook
from tests.short_trainings import TRAININGS, digest
from workbench.profiles import LayerTimes
from workbench.utils import instruction_set
from workbench.utils.files import ROOT
from workbench.utils.instruction_set import CHOICE, VARIABLES
from workbench.utils.parallel import as_finished

# SHA-256 of the weights of `tests.short_trainings`, with AVX2 kernels. They change with PyTorch's
# version, and with whatever a training is meant to compute.
WEIGHTS = {
    "dynacomm": "0d484a49d117eac4e7134d96de79f32c9f02fd974faf377d1245ed5094012fc8",
    "hiertrain": "4d5c84e2bec8508f712c249234ce466bebaa7b46da5b262ba3896541986e852d",
    "decentralised": "5a30bb301d1b4c4cdf22a2ffeb80eabb333c8aa87975cab839e4a5f919f8259c",
    "edgegossip": "0c1ad770ca836be68660d5050fa3681ccf98aab51084f391c2f10dd599391874",
    "dlion": "2a770f01ee331a50134ca8309b97f6dba0115e634945a472e09a5d6ff19f5763",
    "olpb": "b200e0b668403fcf0db1cafd85b70d9e754158a4679fefb8eba2a813fa0f8d9f",
}
FIXED = {"torch": "avx2", "numpy": "avx2"}

needs_avx2 = pytest.mark.skipif(
    instruction_set.record() != FIXED, reason=f"kernels are not fixed: {instruction_set.record()}"
)


def fresh(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python in an environment in which nothing of ours is set but these variables."""
    ours = (*VARIABLES, CHOICE, "OMP_WAIT_POLICY")
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**kept, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def printed(code: str, **variables: str) -> str:
    ended = fresh("-c", code, **variables)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


@cache
def own_kernels() -> str:
    """What PyTorch chooses by itself."""
    return printed("import torch; print(torch.backends.cpu.get_cpu_capability())")


# --- Weights ------------------------------------------------------------------------------------


@needs_avx2
@pytest.mark.parametrize("system", TRAININGS)
def test_a_short_training_ends_in_the_stored_weights(system: str) -> None:
    assert digest(system) == WEIGHTS[system]


@needs_avx2
def test_any_number_of_threads_ends_in_the_stored_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_THREADS", "3")
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    with threadpool_limits(3):
        for system in ("dynacomm", "decentralised", "dlion"):
            assert digest(system) == WEIGHTS[system]
    torch.set_num_threads(before)


@needs_avx2
def test_parallel_processes_end_in_the_stored_weights() -> None:
    systems = ("hiertrain", "edgegossip")
    beside = as_finished(digest, [(system,) for system in systems], processes=2)
    for at, weights in beside:
        assert weights == WEIGHTS[systems[at]]


@needs_avx2
def test_other_kernels_end_in_other_weights() -> None:
    code = "from tests.short_trainings import digest; print(digest('hiertrain'))"
    default = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"}
    assert printed(code, **default) != WEIGHTS["hiertrain"]


# --- What is set --------------------------------------------------------------------------------

FIX = "from workbench.utils import instruction_set as one; one.fix()\n"


def test_importing_changes_nothing() -> None:
    code = "import os; before = dict(os.environ); import workbench, workbench.cli, sys\n"
    code += "assert dict(os.environ) == before and not {'torch', 'numpy'} & set(sys.modules)\n"
    code += "import torch; print(torch.backends.cpu.get_cpu_capability())"
    assert printed(code) == own_kernels()


@needs_avx2
def test_tests_use_the_fixed_kernels() -> None:
    assert torch.backends.cpu.get_cpu_capability() == "AVX2"
    assert instruction_set.kernels().startswith("AVX2 (limited by the environment), ")
    features = np._core._multiarray_umath.__cpu_features__  # type: ignore[attr-defined]
    assert features["AVX2"]
    assert not features["X86_V4"]


@needs_avx2
def test_openblas_takes_the_kernels_of_haswell() -> None:
    code = FIX + "import numpy, scipy.linalg, threadpoolctl\n"
    code += "print([one.get('architecture') for one in threadpoolctl.threadpool_info()"
    code += " if one['user_api'] == 'blas'])"
    assert printed(code) == "['Haswell', 'Haswell']"


CELL = """\
import os
from workbench.utils.parallel import as_finished

def found(at):
    import torch
    return torch.backends.cpu.get_cpu_capability()

assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
assert {found(0), *dict(as_finished(found, [(0,), (1,)], 2)).values()} == {"AVX2"}
"""


@needs_avx2
def test_a_notebook_of_reproduce_and_its_processes_use_avx2(tmp_path: Path) -> None:
    write_notebook(tmp_path / "01_dynacomm.ipynb", CELL)
    where = ("--notebooks", str(tmp_path), "--output", str(tmp_path / "out"))
    ended = fresh("-m", "workbench.cli", "reproduce", "01", *where)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@needs_avx2
def test_a_user_may_choose_otherwise() -> None:
    code = FIX + "import numpy\nprint(one.record())"
    assert printed(code) == str(FIXED)
    assert printed(code, **{CHOICE: "native"}) == "{'torch': 'native', 'numpy': 'native'}"
    own = printed(code, MKL_CBWR="AVX2", NPY_ENABLE_CPU_FEATURES="X86_V3")
    assert "MKL_CBWR=AVX2" in own
    assert "'numpy': 'OPENBLAS_CORETYPE=Haswell'" in own
    refused = fresh("-m", "workbench.cli", "reproduce", **{CHOICE: "avx"})
    assert refused.returncode == 2
    assert refused.stderr == f"workbench: {CHOICE} is 'avx'; give 'avx2' or 'native'\n"


def test_nothing_is_limited_without_avx2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instruction_set, "_has_avx2", lambda: False)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    instruction_set.fix()
    assert not VARIABLES.keys() & os.environ.keys()


def test_a_measured_profile_names_its_kernels(tmp_path: Path) -> None:
    saved = tmp_path / "board.parquet"
    asked = ["-m", "workbench.cli", "profile", "lenet5", "--measure", "--save", str(saved)]
    shown = fresh(*asked, OMP_NUM_THREADS="1")
    own = own_kernels()
    assert LayerTimes.load(saved).kernels == f"{own}, 1 thread", shown.stderr
    assert f"this machine's cpu; kernels: {own}, 1 thread" in shown.stdout
