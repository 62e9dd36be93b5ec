"""Models of one's own, from a file or a module; what cannot be made is refused in one line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from torch import nn

from workbench.zoo.own_model import load_model

SOURCE = """
import torch
from beside import WIDTH

class Net(torch.nn.Linear):
    def __init__(self, width=WIDTH):
        super().__init__(width, 2)

class Sized(torch.nn.Linear):
    pass

def made():
    return Net(7)

def fails():
    raise KeyError("no weights")

made_already = Net(5)
number = 3
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "my_net.py").write_text(SOURCE)
    (tmp_path / "beside.py").write_text("WIDTH = 3\n")
    (tmp_path / "json.py").write_text("import torch\nNet = torch.nn.Identity\n")
    (tmp_path / "broken.py").write_text("def net(:\n")
    (tmp_path / "ending.py").write_text("import sys\nsys.exit('no GPU')\n")
    (tmp_path / "importing.py").write_text("import not_installed\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize("where", ["my_net.py", "my_net", "{folder}/my_net.py"])
@pytest.mark.parametrize(("name", "width"), [("Net", 3), ("made", 7), ("made_already", 5)])
def test_classes_functions_and_modules(folder: Path, where: str, name: str, width: int) -> None:
    model = load_model(f"{where.format(folder=folder)}:{name}")
    assert isinstance(model, nn.Linear)
    assert model.in_features == width


def test_a_file_takes_no_other_modules_name() -> None:
    import json

    assert isinstance(load_model("json.py:Net"), nn.Identity)
    assert sys.modules["json"] is json


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("my_net.py", "name your own model as file.py:Name"),
        ("my_net.py:", "name your own model as file.py:Name"),
        ("nowhere.py:Net", "there is no file nowhere.py"),
        ("nowhere.nets:Net", "importing it raises ModuleNotFoundError: No module named 'nowhere'"),
        ("my_net.py:Nett", "unknown name in my_net.py 'Nett'. Did you mean 'Net'"),
        ("my_net.py:nothing", "Known: Net, Sized, made, fails, made_already$"),
        ("my_net:torch", "is of type module, not a torch.nn.Module"),
        ("my_net.py:number", "is of type int, not a torch.nn.Module"),
        ("my_net.py:Sized", "calling it without arguments raises TypeError: .* missing 2 required"),
        (
            "my_net.py:fails",
            r"calling it without arguments raises KeyError: 'no weights' \(.*my_net.py, line 16\)",
        ),
        ("broken.py:net", r"importing it raises SyntaxError: invalid syntax \(broken.py, line 1\)"),
        ("ending.py:net", r"importing it raises SystemExit: no GPU \(.*ending.py, line 2\)"),
        ("importing.py:net", "importing it raises ModuleNotFoundError: No module named 'not_inst"),
        ("importing:net", "importing it raises ModuleNotFoundError: No module named 'not_inst"),
    ],
)
def test_what_cannot_be_made(named: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_model(named)
