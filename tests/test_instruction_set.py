"""The same bits on every x86 machine: kernels are fixed before they are chosen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits
from typer.testing import CliRunner

from tests.short_trainings import TRAININGS, digest
from workbench.cli import app
from workbench.utils import instruction_set
from workbench.utils.files import ROOT
from workbench.utils.instruction_set import AVX2, VARIABLE
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
NAMES = [name for variables in AVX2.values() for name in variables]

needs_avx2 = pytest.mark.skipif(
    instruction_set.record(new_process=True) != FIXED,
    reason=f"kernels are not fixed: {instruction_set.record(new_process=True)}",
)


def fresh(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process in which nothing of ours is set but these variables."""
    kept = {name: value for name, value in os.environ.items() if name not in (*NAMES, VARIABLE)}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**kept, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def found(code: str, **variables: str) -> Any:
    """What the code prints as JSON."""
    ended = fresh(code, **variables)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


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
    code = "import json\nfrom tests.short_trainings import digest\n"
    code += "print(json.dumps(digest('hiertrain')))"
    default = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"}
    assert found(code, **{VARIABLE: "native"}, **default) != WEIGHTS["hiertrain"]


# --- What is set --------------------------------------------------------------------------------

RECORD = "import json, workbench.utils.instruction_set as one\nprint(json.dumps(one.record()))"


@needs_avx2
def test_pytest_itself_imports_workbench_in_time() -> None:
    assert instruction_set.record() == FIXED
    assert torch.backends.cpu.get_cpu_capability() == "AVX2"
    features = np._core._multiarray_umath.__cpu_features__  # type: ignore[attr-defined]
    assert features["AVX2"]
    assert not features["X86_V4"]


@needs_avx2
def test_openblas_takes_the_kernels_of_haswell() -> None:
    code = "import json, workbench, numpy, scipy.linalg, threadpoolctl\n"
    code += "print(json.dumps([one.get('architecture') for one in threadpoolctl.threadpool_info()"
    code += " if one['user_api'] == 'blas']))"
    assert found(code) == ["Haswell", "Haswell"]


@needs_avx2
def test_a_choice_made_before_import_is_recorded_for_each_library() -> None:
    assert found(RECORD) == FIXED
    assert found(f"import torch\n{RECORD}") == {
        "torch": "avx2",  # it chooses when it first computes
        "numpy": "native: imported before workbench",
    }
    already = {name: value for variables in AVX2.values() for name, value in variables.items()}
    assert found(f"import numpy\n{RECORD}", **already) == FIXED
    computed = "import os, torch\nos.environ['ATEN_CPU_CAPABILITY'] = 'default'\n"
    computed += "torch.rand(2).sum()\ndel os.environ['ATEN_CPU_CAPABILITY']\n"
    late = found(computed + RECORD)
    assert late["torch"] == "default: computed before workbench was imported"


@needs_avx2
def test_what_the_user_sets_stays_and_is_recorded() -> None:
    own = {"ATEN_CPU_CAPABILITY": "default", "OPENBLAS_CORETYPE": "Zen"}
    assert found(RECORD, **own) == {
        "torch": "avx2, ATEN_CPU_CAPABILITY=default",
        "numpy": "avx2, OPENBLAS_CORETYPE=Zen",
    }
    assert found(f"import workbench, numpy\n{RECORD}", NPY_ENABLE_CPU_FEATURES="X86_V3") == {
        "torch": "avx2",
        "numpy": "avx2, NPY_ENABLE_CPU_FEATURES=X86_V3",
    }


def test_it_can_be_switched_off() -> None:
    code = f"import os, workbench\nassert not {set(NAMES)!r} & set(os.environ)\n{RECORD}"
    assert found(code, **{VARIABLE: "native"}) == {"torch": "native", "numpy": "native"}
    refused = fresh(RECORD, **{VARIABLE: "avx"}).stderr
    assert f"{VARIABLE} is 'avx'; give 'avx2' or 'native'" in refused


@needs_avx2
def test_native_processes_are_not_limited_unless_the_user_said_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with instruction_set.native():
        assert not set(NAMES) & set(os.environ)
        assert set(instruction_set.record(new_process=True).values()) == {"native"}
    assert instruction_set.record() == FIXED
    monkeypatch.setenv(VARIABLE, "avx2")
    with instruction_set.native():
        assert instruction_set.record(new_process=True) == FIXED


@needs_avx2
def test_profiles_are_measured_with_the_machines_own_kernels() -> None:
    runner = CliRunner(env={VARIABLE: ""})
    shown = runner.invoke(app, ["profile", "lenet5", "--measure"])
    assert "cpu, kernels: native" in shown.stdout


def test_a_machine_without_avx2_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instruction_set, "_has_avx2", lambda: False)
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    instruction_set.fix()
    assert not set(NAMES) & set(os.environ)
    said = instruction_set.record(new_process=True)
    assert all(one.startswith("native: no AVX2") for one in said.values())
    monkeypatch.setenv(VARIABLE, "avx2")
    with pytest.raises(ValueError, match="which this machine lacks; give 'native'"):
        instruction_set.fix()
