"""Committed recordings can be traced: to a commit, to data by name, and to enough seeds."""

from __future__ import annotations

import subprocess
from collections import defaultdict

import pytest

from workbench import systems
from workbench.experiments import recorded
from workbench.experiments.data import digest_here
from workbench.experiments.recorded import FOLDER
from workbench.parameters import DATASETS
from workbench.store.manifest import NAME
from workbench.three_ways.recording import RUNS
from workbench.utils.files import ROOT

RECORDED = sorted(tuple(path.parts[-3:-1]) for path in FOLDER.glob(f"*/*/{NAME}"))
EACH = pytest.mark.parametrize(("system", "name"), RECORDED, ids=map(" ".join, RECORDED))


def loaded(system: str, name: str) -> recorded.Recorded:
    found = recorded.load(system, name)  # which compares the frame with its hash
    assert found is not None
    return found


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@EACH
def test_its_commits_are_among_those_of_this_branch(system: str, name: str) -> None:
    found = loaded(system, name)
    made = found.manifest
    assert found.traceable
    assert "None" not in str(found)
    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("earlier commits are not in this clone")
    for revision in filter(None, (made.revision, made.extended_at)):
        assert git("merge-base", "--is-ancestor", revision, "HEAD").returncode == 0, revision


def test_data_sets_have_names_and_each_one_content() -> None:
    contents = defaultdict[str, set[str | None]](set)
    for each in RECORDED:
        for source, digest in loaded(*each).manifest.data.items():
            contents[source].add(digest)
    assert set(contents) <= set(DATASETS)
    here = {source: digest_here(source) for source in contents}
    assert here["digits"] is not None
    for source, digests in contents.items():
        assert len(digests | ({here[source]} - {None})) == 1, source


@EACH
def test_what_was_learnt_is_judged_by_three_seeds(system: str, name: str) -> None:
    made = loaded(system, name).manifest
    figure = RUNS if system == "three_ways" else systems.figures(system)[name]
    assert made.learns is figure.learns
    answering = [one for one in systems.judged(system) if one.answers] if made.learns else []
    judged = any(figure in one.bases for each in answering for one in each.figures)
    assert len(made.seeds) >= 3 or not judged
