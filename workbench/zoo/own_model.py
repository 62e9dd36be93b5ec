"""One's own model, named as ``file.py:Name`` or ``package.module:Name``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from workbench.utils.checks import UserError, check_name
from workbench.utils.files import expanded

if TYPE_CHECKING:
    import torch


def named_model(name: str, inputs: str | None) -> tuple[Any, Any]:
    """Return the name of a model of the zoo, or the user's own module, and its inputs.

    `inputs` is written as in ``--inputs``; None where the zoo knows what its model takes.
    """
    from workbench.profiles.inputs import read_inputs
    from workbench.zoo import MODELS

    is_own = ":" in name or name.endswith(".py")
    model = load_model(name) if is_own else name
    if inputs is not None:
        known = MODELS.get(name)
        return model, read_inputs("--inputs", inputs, known.input_dtype if known else "float32")
    if is_own:
        raise UserError(
            f"{name}: give what it takes, as in --inputs 3,224,224 or --inputs 'int64[128]'"
        )
    return model, None


def load_model(named: str) -> torch.nn.Module:
    """Return the module of a name; a class or a function is called, without arguments.

    What is beside the file, or in the current folder, can be imported. Raises a `ValueError`
    where the model cannot be found or made.
    """
    where, _, name = named.rpartition(":")
    if not (where and name):
        raise UserError(f"{named}: name your own model as file.py:Name or package.module:Name")
    with _explained(f"{named}: importing it"):
        loaded = _from_file(named, where) if where.endswith(".py") else _imported(where)

    import torch

    if not hasattr(loaded, name):
        makers = [
            key
            for key, value in vars(loaded).items()
            if isinstance(value, torch.nn.Module)
            or (callable(value) and value.__module__ == loaded.__name__)
        ]
        check_name(f"name in {where}", name, makers)
    made: Any = getattr(loaded, name)
    if callable(made) and not isinstance(made, torch.nn.Module):
        with _explained(f"{named}: calling it without arguments"):
            made = made()
    if not isinstance(made, torch.nn.Module):
        raise UserError(f"{named} is of type {type(made).__name__}, not a torch.nn.Module")
    return made


def _from_file(named: str, where: str) -> ModuleType:
    path = expanded(where)
    if not path.is_file():
        raise UserError(f"{named}: there is no file {path}")
    sys.path.append(str(path.resolve().parent))
    own = f"own model in {path.stem}"  # so that it takes no other module's name
    spec = importlib.util.spec_from_file_location(own, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = sys.modules[own] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def _imported(where: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    return importlib.import_module(where)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Report an error of the user's code, with its line."""
    try:
        yield
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        inside = not last.filename.startswith("<")  # importlib's own, below which nothing ran
        line = f" ({last.filename}, line {last.lineno})" if inside else ""
        raise UserError(f"{what} raises {type(error).__name__}: {error}{line}") from error
