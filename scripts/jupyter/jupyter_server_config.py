"""JupyterLab as `make lab` opens it: the repository's notebooks are saved without outputs."""

from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def without_outputs(model: dict[str, Any], path: str, contents_manager: Any) -> None:
    """Strip what running a notebook adds to it, before it is saved: as the repository holds it."""
    file = Path(contents_manager.root_dir, path.lstrip("/")).resolve()
    if model["type"] != "notebook" or file.parent != NOTEBOOKS:
        return
    notebook = model["content"]
    notebook["metadata"].pop("widgets", None)
    notebook["metadata"]["language_info"] = {"name": "python"}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
            cell["metadata"].pop("execution", None)


get_config().FileContentsManager.pre_save_hook = without_outputs  # type: ignore[name-defined]  # noqa: F821
