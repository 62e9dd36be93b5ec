"""Ray on this machine for measured runs, or a cluster of Ray's that is there."""

from __future__ import annotations

import gc
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from workbench.runtime.measured import guard
from workbench.runtime.measured.worker import Worker
from workbench.utils.checks import UserError, check_whole

PLACES = 16
_REACH_S = 10.0
_ATTEMPTS = 3
OBJECT_STORE_BYTES = 96 << 20
CALLS_AT_ONCE = 6
_TOKEN = secrets.token_hex(32)  # Ray reads its own once a process
_SETTINGS = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": _TOKEN,
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_worker_niceness": "0",  # else every process of a run gives way to all others
    "RAY_prestart_worker_first_driver": "0",  # processes are started as nodes need them
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # listens on the loopback alone, on Linux too
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


@dataclass(eq=False)
class Session:
    """A Ray that runs: `places` processes at most; `folder` is its own, None for a cluster's.

    Processes of a run that ended as it should are used again by the next.
    """

    ray: Any
    places: int
    address: str | None
    folder: Path | None = None
    _guard: Any = field(default=None, repr=False)
    _free: list[Any] = field(default_factory=list, repr=False)

    @property
    def host(self) -> str | None:
        """Where processes of this machine listen; None for each on the address of its own."""
        return "127.0.0.1" if self.address is None else None

    def take(self, resources: Sequence[Mapping[str, float]]) -> list[Any]:
        """Actors for a run, on machines with these resources of Ray's.

        Those that earlier runs left are used again where none are asked for.
        """
        driver = os.getpid() if self.address is None else None
        options = {"num_cpus": 1, "max_concurrency": CALLS_AT_ONCE, "max_restarts": 0}
        kind = self.ray.remote(Worker)
        return [
            self._free.pop()
            if self._free and not wanted
            else kind.options(**options, resources=dict(wanted)).remote(driver)
            for wanted in resources
        ]

    def leave(self, actors: list[Any], *, whole: bool) -> None:
        """Keep the actors for the next run, or end them if their run did not end as it should."""
        if whole:
            self.ray.get([actor.leave.remote() for actor in actors])
            self._free += actors
        else:
            for actor in actors:
                self.ray.kill(actor)

    def last_lines(self, process: int, count: int = 10) -> str:
        """What a process of this machine wrote last."""
        if self.folder is None:
            return ""
        logs = sorted(self.folder.glob(f"session_latest/logs/worker-*-{process}.*"))
        lines = [line for log in logs for line in log.read_text(errors="replace").splitlines()]
        return "\n".join(line for line in lines if not line.startswith(":"))[-200 * count :]


_current: Session | None = None


@contextmanager
def session(places: int = PLACES, *, address: str | None = None) -> Iterator[Session]:
    """Keep Ray for several measured runs, which begin sooner then.

    Parameters
    ----------
    places
        Processes at a time: nodes, and their restarts.
    address
        Of a Ray cluster that is there, ``"auto"`` or ``"ray://..."``; by default Ray is started on
        this machine, reachable from this machine alone, and ended afterwards. It wants a token of
        its users, unless this process has used a Ray that wants none.

    Raises UserError: Ray is not installed, or there is no such cluster.
    """
    global _current  # noqa: PLW0603
    check_whole("places", places, 1)
    if _current is not None:
        raise UserError("a session is open already; use it, or leave it first")
    started = _connect(address) if address is not None else _start(places)
    _current = started
    try:
        yield started
    finally:
        _current = None
        _end(started)


@contextmanager
def current_or_new(places: int, address: str | None) -> Iterator[Session]:
    """The session that is open, or one of its own."""
    if _current is None:
        with session(places, address=address), current_or_new(places, address) as own:
            yield own
        return
    if address is not None and address != _current.address:
        raise UserError(f"address is {address!r}, but a session of another Ray is open; leave it")
    if places > _current.places:
        more = f"open it with places={places}" if _current.address is None else "give it more cores"
        raise UserError(
            f"the run has {places} processes, nodes and restarts together, but the session has "
            f"places for {_current.places}; {more}"
        )
    yield _current


def import_ray(*, here: bool = True) -> Any:
    """Return Ray, for this machine alone or for a cluster; a UserError how to install it."""
    settings = _SETTINGS if here else {}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        import ray
        from ray._private import ray_constants
    except ImportError as error:
        raise UserError(
            "measured runs need Ray, which is not installed: pip install 'workbench[measured]'"
        ) from error
    finally:
        _restore(before)
    ray_constants.ENABLE_RAY_CLUSTER = not here  # where Ray was imported before
    return ray


def _restore(before: dict[str, str | None]) -> None:
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _start(places: int) -> Session:
    ray = import_ray()
    if ray.is_initialized():
        raise UserError(
            "Ray runs in this process already; end it with ray.shutdown(), or give measure(..., "
            "address='auto') to use its cluster"
        )
    guard.clean_up()
    folder = Path(tempfile.mkdtemp(prefix=f"{guard.PREFIX}{os.getpid()}-"))
    mark = secrets.token_hex(8)
    settings = {
        **_SETTINGS,
        guard.MARK: mark,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    before = {name: os.environ.get(name) for name in settings}
    watching = subprocess.Popen(
        [sys.executable, guard.__file__, mark, str(folder)],
        stdin=subprocess.PIPE,
        start_new_session=True,
        close_fds=True,
    )
    os.environ.update(settings)
    if not _reads_token():
        os.environ["RAY_AUTH_MODE"] = "disabled"
    started = Session(ray, places, None, folder, watching)
    try:
        for attempt in range(_ATTEMPTS):
            try:
                _init(ray, places, folder)
                break
            except Exception as error:  # such as its patience with a busy machine
                ray.shutdown()
                if attempt + 1 == _ATTEMPTS:
                    raise UserError(
                        f"Ray could not be started on this machine: {error}; run less beside "
                        "it, or look at what it needs: memory, /dev/shm, ports on 127.0.0.1"
                    ) from error
    except BaseException:
        _end(started)
        raise
    finally:
        _restore(before)
    return started


def _reads_token() -> bool:
    """Whether this process's Ray uses the token: it reads its mode once, when first used."""
    from ray import _raylet

    inner: Any = _raylet
    return bool(inner.get_authentication_mode() == inner.AuthenticationMode.TOKEN)


def _init(ray: Any, places: int, folder: Path) -> None:
    with _own_sigterm():
        ray.init(
            address="local",
            num_cpus=places,
            object_store_memory=OBJECT_STORE_BYTES,
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
            _temp_dir=str(folder),
            _node_ip_address="127.0.0.1",
        )


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """Keep this process's handler, in place of which Ray sets its own."""
    main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if main and handler is not None:
            signal.signal(signal.SIGTERM, handler)


def _connect(address: str) -> Session:
    ray = import_ray(here=False)
    try:
        host, _, port = address.removeprefix("ray://").rpartition(":")
        if host and port.isdecimal():  # Ray itself would try for minutes
            socket.create_connection((host, int(port)), timeout=_REACH_S).close()
        if not ray.is_initialized():
            with _own_sigterm():
                ray.init(address=address, log_to_driver=False, configure_logging=False)
    except Exception as error:
        raise UserError(
            f"no Ray cluster can be reached at {address!r}: {error}; start one with `ray start "
            "--head`, or leave out address to start Ray on this machine"
        ) from error
    return Session(ray, int(ray.cluster_resources().get("CPU", 0)), address)


def _end(ended: Session) -> None:
    """End Ray, if it was started here, and whatever it left."""
    ended._free.clear()
    gc.collect()  # handles of actors that are dropped later end the next Ray's of the same number
    try:
        ended.ray.shutdown()
    finally:
        if ended.folder is not None:
            ended._guard.stdin.close()  # which tells it to clean up
            ended._guard.wait()
            shutil.rmtree(ended.folder, ignore_errors=True)


def host_facts() -> dict[str, float]:
    """Seconds that this machine's cores spent, since it started, for others (steal) and in all."""
    times = psutil.cpu_times()
    return {"steal_s": getattr(times, "steal", 0.0), "all_s": sum(times[:8])}
