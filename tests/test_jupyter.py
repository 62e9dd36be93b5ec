"""JupyterLab's configuration for `make lab`: what it saves is what the repository holds."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.services.contents.filemanager import FileContentsManager
from traitlets.config import Config

from workbench.utils import files

NOTEBOOKS = sorted((files.ROOT / "notebooks").glob("*.ipynb"))
CONFIG = files.ROOT / "scripts/jupyter/jupyter_server_config.py"


def saved(folder: Path, name: str, notebook: Any, home: Path) -> str:
    """Text of a file that a contents manager with this configuration saves."""
    config = Config()
    values = runpy.run_path(str(CONFIG), {"get_config": lambda: config})
    config.FileContentsManager.pre_save_hook.__globals__["NOTEBOOKS"] = home
    assert values["NOTEBOOKS"] == files.ROOT / "notebooks"
    manager: Any = FileContentsManager(root_dir=str(folder), config=config)
    manager.save({"type": "notebook", "content": notebook}, f"/{name}")
    return (folder / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_that_was_run_is_saved_as_it_was(path: Path, tmp_path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    ran = json.loads(text)
    ran["metadata"]["language_info"] = {"name": "python", "version": "3.11.7"}
    ran["metadata"]["widgets"] = {"state": {}}
    for number, cell in enumerate(ran["cells"]):
        if cell["cell_type"] == "code":
            cell["execution_count"] = number
            cell["metadata"]["execution"] = {"iopub.status.busy": "2026"}
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "ran"}]
    assert '"ran"' in saved(tmp_path, path.name, ran, home=tmp_path / "elsewhere")
    assert saved(tmp_path, path.name, ran, home=tmp_path) == text
