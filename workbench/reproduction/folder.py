"""The results folder: one writer, whole results only, no leftovers."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

from workbench.utils.checks import UserError
from workbench.utils.files import check_not_installed


def writable(folder: Path) -> None:
    """Make a folder if there is none, and try to write there; raises UserError if that fails."""
    check_not_installed(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".workbench-") as file:
            file.write(bytes(4096))
    except (FileExistsError, NotADirectoryError):
        raise UserError(f"cannot write to {folder}: there is a file in its place") from None
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror}") from None


@contextlib.contextmanager
def sole_writer(
    output: Path,
    names: Collection[str],
    *,
    lock: str = ".lock",
    instead: str = ", or choose another folder with --output DIR",
) -> Iterator[None]:
    """Lock `output` for these names, and `clean` it before and after.

    The operating system frees the file `lock` when this process ends, however it does. `instead`
    ends the error's advice to wait.

    Raises UserError: nothing can be written there, or another run is writing.
    """
    writable(output)
    try:
        file = (output / lock).open("a+")
    except OSError as error:
        raise UserError(f"cannot write to {error.filename}: {error.strerror}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise UserError(
                f"another run (process {file.read().strip() or 'unknown'}) is writing to {output}; "
                f"wait for it to end{instead}"
            ) from None
        except OSError as error:
            raise UserError(
                f"cannot lock {output}: {error.strerror}; "
                "choose a folder on another disk with --output DIR"
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        clean(output, names)
        try:
            yield
        finally:
            clean(output, names)


def clean(output: Path, names: Collection[str]) -> None:
    """Remove what dead runs have left, restoring a result that was about to be replaced.

    Only leftovers of these names are touched, since `output` may be any folder of the user's.
    """
    for name in names:
        old = _old(output, name)
        if old.exists() and not (output / name).exists():
            old.rename(output / name)
        hidden = glob.escape(f".{name}")
        for path in (
            old,
            *output.glob(f"{hidden}.partial-*"),
            *output.glob(f"{hidden}.failed.ipynb.*.part"),
        ):
            _remove(path)


@contextlib.contextmanager
def partial_folder(output: Path, name: str) -> Iterator[Path]:
    """Yield a hidden folder for results until they are put in place."""
    partial = Path(tempfile.mkdtemp(prefix=f".{name}.partial-", dir=output))
    try:
        partial.chmod(0o755)
        yield partial
    finally:
        _remove(partial)


def put_in_place(partial: Path, output: Path, name: str) -> None:
    """Replace earlier results by new ones, as a whole."""
    final = output / name
    old = _old(output, name)
    if final.exists():
        final.rename(old)  # `clean` brings it back if we die between the two
    partial.rename(final)
    _remove(old)
    failed_copy(output, name).unlink(missing_ok=True)


def failed_copy(output: Path, name: str) -> Path:
    """Return where the executed copy of a notebook that failed is kept."""
    return output / f"{name}.failed.ipynb"


def _old(output: Path, name: str) -> Path:
    return output / f".{name}.old"


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
