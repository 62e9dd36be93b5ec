"""Store what models of the zoo cost, their dataflows, and what passes and stages of them take.

Run as ``.venv/bin/python scripts/trace_zoo.py`` after a change to the zoo, to the tracing, to what
is counted, or to the version of PyTorch; it takes minutes. With names, such as ``profiles``, it
writes those files alone.
"""

import io
import sys
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

from workbench.memory import stored_dataflows
from workbench.olpb.costs import stored_passes
from workbench.pipelines import recording
from workbench.pipelines.memory import recorded
from workbench.profiles import analytic
from workbench.utils import files
from workbench.utils.checks import check_name
from workbench.zoo import MODELS


def packed(members: Iterable[tuple[str, bytes]]) -> bytes:
    """Pack an archive: the same bytes for the same members."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compresslevel=9) as file:
        for name, member in members:
            file.writestr(zipfile.ZipInfo(name), member, zipfile.ZIP_DEFLATED)
    return content.getvalue()


FILES: dict[str, tuple[Path, Callable[[], bytes]]] = {
    "profiles": (analytic.STORED, analytic.zoo_as_json),
    "dataflows": (
        stored_dataflows.STORED,
        lambda: packed(
            member
            for model in MODELS
            for training in (False, True)
            for member in stored_dataflows.forms(model, training)
        ),
    ),
    "passes": (
        stored_passes.STORED,
        lambda: packed(member for model in MODELS for member in stored_passes.costs(model)),
    ),
    "stages": (
        recording.STORED,
        lambda: packed(
            recording.members({model: both for model in MODELS if (both := recorded(model))})
        ),
    ),
}

if __name__ == "__main__":
    chosen = sys.argv[1:] or list(FILES)
    for name in chosen:
        check_name("file", name, FILES)
    for name in chosen:
        path, make = FILES[name]
        files.write_bytes(path, make())
        print(path.name, flush=True)
