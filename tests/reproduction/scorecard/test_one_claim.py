"""One claim in full: what the paper states, ours, rule, evidence, cause and command."""

from __future__ import annotations

import re
import shutil
import sys
from functools import partial
from pathlib import Path

import pytest

from workbench.reproduction import recordings, systems
from workbench.reproduction.claims import claims_of
from workbench.reproduction.notebook_files import find, notebooks_folder
from workbench.reproduction.recordings import load_all
from workbench.reproduction.scorecard.one_claim import claims_named, commands, one_claim
from workbench.utils.checks import UnknownNameError


@pytest.mark.parametrize("system", systems.TITLES)
def test_every_claim_has_its_rule_and_a_command_that_exists(system: str, tmp_path: Path) -> None:
    text = one_claim(system, tmp_path)
    assert max(map(len, text.splitlines())) <= 100
    described = text.split("\n\n")
    assert [one.partition("\n")[0] for one in described] == list(claims_of(system))
    assert all(re.search(r"^  rule +\S", one, re.MULTILINE) for one in described)
    for name, claim in claims_of(system).items():
        assert commands(name) or claim.check == "input"
        for command in commands(name):
            match command.split():
                case ["workbench", "record", of, figure, *_]:
                    assert (of, figure in systems.recordable(of)) == (system, True)
                case ["workbench", "reproduce", notebook]:
                    assert find(notebooks_folder(None), [notebook])
                case _:
                    pytest.fail(command)


def test_recorded_claim_names_value_evidence_cause_and_the_arguments_of_its_recording() -> None:
    text = one_claim("edgegossip.fig13.ratio").splitlines()[1:]
    lines = dict(line[2:].split(None, 1) for line in text if line[2] != " ")
    assert lines["paper"] == "true"
    assert lines["recorded"].startswith("fig13: recorded on")
    assert lines["again"].startswith("workbench record edgegossip fig13 ")


def test_claims_that_match_a_pattern() -> None:
    assert claims_named("*.fig11.*.ako") == [
        f"dlion.fig11.{where}.ako" for where in ("hetero_sys_a", "hetero_sys_b", "homo_a")
    ]
    headings = [one.partition("\n")[0] for one in one_claim("*.fig10.*").split("\n\n")]
    assert headings == claims_named("*.fig10.*")
    assert {one.partition(".")[0] for one in headings} > {"dynacomm", "olpb"}


def test_what_is_learnt_is_made_again_at_the_scale_that_it_is_judged_at() -> None:
    kept = recordings.load("dlion", "fig12")
    assert kept is not None
    assert kept.scale == "default"
    assert commands("dlion.fig12.homo_c.hop") == ["workbench record dlion fig12 --force"]


def test_what_is_judged_by_a_recording_is_made_again_by_recording() -> None:
    (accuracy,) = commands("dynacomm.fig10.accuracy")
    options = "-p dataset=cifar10_10k -p epochs=20 --force"
    assert accuracy == f"workbench record dynacomm fig10 {options}"
    (seconds,) = commands("olpb.table2.resnet50.time_ratio")
    assert seconds == "workbench record olpb table2_times --force"


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("dlion.fig11.hop", "dlion.fig11.homo_a.hop"),
        ("dlion.fig99", "the nearest are dlion.fig9"),
        ("dlion.", "the nearest are dlion.fig"),
        ("nonsense", "dynacomm, hiertrain"),
    ],
)
def test_unknown_claim_is_refused_with_those_nearby(name: str, known: str) -> None:
    with pytest.raises(UnknownNameError, match=re.escape(known)):
        claims_named(name)


def test_damaged_recording_is_said_and_hides_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(recordings.FOLDER / "dlion", tmp_path / "dlion")
    (tmp_path / "dlion" / "fig11" / "fig11.parquet").write_bytes(b"PAR1")
    module = sys.modules[one_claim.__module__]
    monkeypatch.setattr(module, "load_all", partial(load_all, folder=tmp_path))
    text = one_claim("dlion.fig11")
    assert "fig11.parquet is missing or no longer what was recorded" in " ".join(text.split())
