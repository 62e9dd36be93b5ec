"""Ray for measured runs, on this machine or on an existing cluster."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE
from typing import Any

import psutil

from workbench.runtime.measured import guard
from workbench.runtime.measured.worker import Worker
from workbench.utils import ray_cluster
from workbench.utils.checks import UserError, check_whole

PLACES = 16
_ATTEMPTS = 3
OBJECT_STORE_BYTES = 96 << 20
_LONGEST_PATH = (103 if sys.platform == "darwin" else 107) - 64
"""Of Ray's folder: below it a socket's path goes on for up to 64 characters."""
CALLS_AT_ONCE = 6
_SETTINGS = {
    "RAY_AUTH_MODE": "token",
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
    free: list[Any] = field(default_factory=list, repr=False)
    _placed: dict[Any, Mapping[str, float]] = field(default_factory=dict, repr=False)

    @property
    def host(self) -> str | None:
        """Where processes of this machine listen; None for each on the address of its own."""
        return "127.0.0.1" if self.address is None else None

    def take(self, wanted: Sequence[Mapping[str, float]]) -> list[Any]:
        """Actors for a run, each on a machine with these resources of Ray's."""
        self._check_available(wanted)
        reused = [self._reuse(resources) for resources in wanted]
        if self.address is not None and None in reused:
            self.end()  # those that are left hold what the new ones may need
        return [
            self._start(resources) if actor is None else actor
            for actor, resources in zip(reused, wanted, strict=True)
        ]

    def _reuse(self, resources: Mapping[str, float]) -> Any:
        for actor in self.free:
            if self._placed[actor] == resources:
                self.free.remove(actor)
                return actor
        return None

    def _start(self, resources: Mapping[str, float]) -> Any:
        kind = self.ray.remote(max_concurrency=CALLS_AT_ONCE, max_restarts=0)(Worker)
        own = {name: count for name, count in resources.items() if name != "CPU"}
        actor = kind.options(num_cpus=resources.get("CPU", 1), resources=own).remote()
        self._placed[actor] = resources
        return actor

    def _check_available(self, wanted: Sequence[Mapping[str, float]]) -> None:
        """Refuse to wait for resources that the cluster does not have."""
        needed: Counter[str] = Counter()
        for resources in wanted:
            needed.update(resources)
        available = self.ray.cluster_resources() if needed else {}
        for name, count in needed.items():
            if count > available.get(name, 0):
                raise UserError(
                    f"the run needs {count:g} of the resource {name!r}, and the Ray cluster has "
                    f"{available.get(name, 0):g}; start Ray with more of it, or ask for less"
                )

    def leave(self, actors: list[Any], *, whole: bool) -> None:
        """Keep the actors for the next run, or end them if their run did not end as it should."""
        if whole:
            self.ray.get([actor.leave.remote() for actor in actors])
            self.free += actors
        else:
            self._kill(actors)

    def end(self) -> None:
        """End all actors, and forget them."""
        self._kill(self.free)
        self.free.clear()

    def _kill(self, actors: list[Any]) -> None:
        for actor in actors:
            del self._placed[actor]
            self.ray.kill(actor)

    def last_lines(self, process: int) -> str:
        """What a process of this machine wrote last."""
        if self.folder is None:
            return ""
        logs = sorted(self.folder.glob(f"{guard.INSIDE}/session_latest/logs/worker-*-{process}.*"))
        lines = [line for log in logs for line in log.read_text(errors="replace").splitlines()]
        return "\n".join(line for line in lines if not line.startswith(":"))[-2000:]


_current: Session | None = None
_one_at_a_time = threading.RLock()
"""Held by runs, which would disturb each other, and where Ray starts and ends."""


@contextmanager
def session(places: int = PLACES, *, address: str | None = None) -> Iterator[Session]:
    """Keep Ray for several measured runs, which begin sooner then.

    Parameters
    ----------
    places
        Processes at a time: nodes, and their restarts.
    address
        Of an existing Ray cluster, ``"auto"`` or ``"ray://..."``; by default Ray is started on
        this machine, reachable from this machine alone by a token that this process knows, and
        ended afterwards.

    Raises UserError: Ray is not installed, or there is no such cluster.
    """
    global _current  # noqa: PLW0603
    check_whole("places", places, 1)
    with ExitStack() as stack:
        with _one_at_a_time:
            if _current is not None:
                raise UserError("a session is open already; use it, or leave it first")
            opened = _started(places) if address is None else _connected(address)
            _current = stack.enter_context(opened)
        try:
            yield _current
        finally:
            with _one_at_a_time:
                _current = None
                stack.close()


@contextmanager
def current_or_new(places: int, address: str | None) -> Iterator[Session]:
    """The session that is open, or one of its own; other threads wait until the block ends."""
    if address is not None:
        ray_cluster.check_address(address)
    with _one_at_a_time:
        if _current is None:
            with session(places, address=address), current_or_new(places, address) as own:
                yield own
            return
        if address is not None and address != _current.address:
            raise UserError(
                f"address is {address!r}, but a session of another Ray is open; leave it"
            )
        if places > _current.places:
            local = _current.address is None
            more = f"open it with places={places}" if local else "give it more cores"
            raise UserError(
                f"the run has {places} processes, nodes and restarts together, but the session has "
                f"places for {_current.places}; {more}"
            )
        yield _current


@contextmanager
def _started(places: int) -> Iterator[Session]:
    """Ray on this machine, which ends with the block, and leaves nothing."""
    ray = ray_cluster.import_ray()
    if ray.is_initialized():
        raise UserError(
            "Ray runs in this process already; end it with ray.shutdown(), or give measure(..., "
            "address='auto') to use its cluster"
        )
    base = _short_folder()
    guard.clean_up(base)
    folder = Path(tempfile.mkdtemp(prefix=guard.PREFIX, dir=base))
    # The current folder comes last, where it counts at all: a file of the user's that is named
    # like a package does not take its place in a node's process.
    own = [str(Path.cwd())] if "" in sys.path else []
    settings = {
        **_SETTINGS,
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "PYTHONPATH": os.pathsep.join([*filter(None, sys.path), *own]),
        guard.FOLDER: str(folder),
    }
    started = Session(ray, places, None, folder)
    command = [sys.executable, guard.__file__, str(folder)]
    with (
        guard.lock(folder) as lock,
        subprocess.Popen(command, stdin=PIPE, start_new_session=True, pass_fds=[lock.fileno()]),
    ):  # at the end the guard's input ends, and it cleans up
        try:
            with ray_cluster.own_settings(settings, here=True):
                _init(ray, places, folder)
            yield started
        finally:
            started.end()
            ray_cluster.shut_down(ray)


def _short_folder() -> Path:
    """Return the folder for temporary files, or /tmp where its path is too long for Ray."""
    longest = _LONGEST_PATH - len(f"/{guard.PREFIX}12345678/{guard.INSIDE}")
    own = Path(tempfile.gettempdir())
    for folder in (own, Path("/tmp")):
        if len(os.fsencode(folder)) <= longest and os.access(folder, os.W_OK | os.X_OK):
            return folder
    raise UserError(
        f"Ray needs a folder for its sockets whose path has at most {longest} characters, and "
        f"{own} has {len(os.fsencode(own))}, while /tmp cannot be written to; set TMPDIR to a "
        "shorter one"
    )


def _init(ray: Any, places: int, folder: Path) -> None:
    options = {
        "num_cpus": places,
        "object_store_memory": OBJECT_STORE_BYTES,
        "include_dashboard": False,
        "_temp_dir": str(folder / guard.INSIDE),  # which Ray opens to everybody
        "_node_ip_address": "127.0.0.1",
        # Else Ray puts the current folder before all others on the path of its processes.
        "job_config": ray.job_config.JobConfig(_client_job=True),
    }
    for attempt in range(_ATTEMPTS):
        try:
            ray_cluster.init(ray, "local", **options)
            return
        except Exception as error:  # such as its patience with a busy machine
            ray.shutdown()
            if attempt + 1 == _ATTEMPTS:
                raise UserError(
                    f"Ray could not be started on this machine: {error}; run less beside it, or "
                    "look at what it needs: memory, /dev/shm, ports on 127.0.0.1"
                ) from error


@contextmanager
def _connected(address: str) -> Iterator[Session]:
    """A cluster's Ray."""
    with ray_cluster.connected(address) as ray:
        connected = Session(ray, int(ray.cluster_resources().get("CPU", 0)), address)
        try:
            yield connected
        finally:
            connected.end()


def host_facts() -> dict[str, float]:
    """Seconds that this machine's cores spent, since it started, for others (steal) and in all."""
    times = psutil.cpu_times()
    return {"steal_s": getattr(times, "steal", 0.0), "all_s": sum(times[:8])}
