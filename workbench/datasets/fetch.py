"""Downloads: once, with their published checksum, whole or not at all."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from workbench.datasets.dataset import DatasetError
from workbench.utils.files import expanded, home

FOLDER_VARIABLE = "WORKBENCH_DATA"
TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Remote:
    """A file on the network: its published checksum, and URLs of folders to try in turn."""

    name: str
    sha256: str
    mirrors: tuple[str, ...]


def data_folder() -> Path:
    """Return the folder of data sets: ``$WORKBENCH_DATA``, else ``data/downloads`` of the clone.

    Without a clone that is below the current folder.

    Raises DatasetError: the variable is set to anything but a folder.
    """
    downloads = home() / "data" / "downloads"
    setting = os.environ.get(FOLDER_VARIABLE)
    if not setting:
        return downloads
    folder = expanded(setting)
    if not folder.is_dir():
        raise DatasetError(
            f"{FOLDER_VARIABLE}={setting} is not a folder; create it, or unset the variable to use "
            f"{downloads}"
        )
    return folder


def fetch(file: Remote, into: Path) -> Path:
    """Return the path of a file in folder `into`, fetched if it is not there.

    However many processes ask, one fetches and the others wait for it. The file gets its name when
    it is complete and its checksum right; partial downloads are removed.
    """
    import pooch
    from requests import RequestException

    target = into / file.name
    if target.exists():
        return target
    failures: list[str] = []
    try:
        with _alone(into):
            for base in file.mirrors:
                if target.exists():
                    return target
                url = f"{base.rstrip('/')}/{file.name}"
                try:
                    pooch.retrieve(
                        url,
                        known_hash=f"sha256:{file.sha256}",
                        fname=file.name,
                        path=into,
                        downloader=pooch.HTTPDownloader(chunk_size=1 << 16, timeout=TIMEOUT_S),
                    )
                    target.chmod(0o644)
                    return target
                except (RequestException, ValueError) as error:
                    failures.append(f"{url}: {_reason(error)}")
    except OSError as error:
        failures.append(f"{into} cannot be written to: {error}")
    raise DatasetError("; ".join(failures))


def fetch_for(
    dataset: str,
    file: Remote,
    into: Path,
    *,
    files: Sequence[Remote],
    folder: Path,
    layout: str,
) -> Path:
    """`fetch` one of the files of a data set; the error says what else the user can do.

    All are fetched to `into`; they are read in `layout`, below the data `folder`.
    """
    try:
        return fetch(file, into)
    except DatasetError as error:
        names = " and ".join(file.name for file in files)
        raise DatasetError(
            f"data set {dataset!r} is not in {folder / layout} and cannot be fetched ({error}). Go "
            f"online and try again; or put {names} from {file.mirrors[0]} into {into}; or set "
            f"{FOLDER_VARIABLE} to a folder that holds {layout}; or use 'digits' or "
            "'cluttered_digits', which need no network"
        ) from error


def _reason(error: Exception) -> str:
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"the server answers {error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the transfer broke off"
    if isinstance(error, requests.Timeout):
        return f"no answer within {TIMEOUT_S:g} s"
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    if isinstance(error, requests.RequestException):
        return str(error)
    return "what arrived is damaged or another file: its checksum is not the published one"


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other thread or process fetches into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
