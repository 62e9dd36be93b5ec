"""Calls on the machines of a Ray cluster that is there."""

from __future__ import annotations

import gc
import os
import signal
import socket
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

from workbench.utils import instruction_set
from workbench.utils.checks import UserError

T = TypeVar("T")

_TICK_S = 0.25
"""How long a Ctrl-C may wait."""
_KNOCK_S = 10.0


def as_finished(
    function: Callable[..., T],
    calls: Sequence[tuple[Any, ...]],
    address: str,
    *,
    at_once: int | None,
    ahead: int,
    environment: Mapping[str, str],
) -> Generator[tuple[int, T], None, None]:
    """Call a function with each of these arguments there; yield each call's index and result.

    Whatever ends it before the last result ends the processes of the other calls.

    Parameters
    ----------
    function
        What it uses of modules has to be installed on every machine; a function of a notebook's
        cell is sent.
    address
        ``"auto"``, or ``"ray://HOST:PORT"``.
    at_once
        How many calls run beside each other; as many as the cluster has cores by default.
    ahead
        Calls handed out for each core.
    environment
        Of the processes, beside the limits of numerical kernels that this process has.
    """
    own = {name: os.environ[name] for name in instruction_set.VARIABLES if name in os.environ}
    with connected(address) as ray:
        cores = int(ray.cluster_resources().get("CPU", 0))
        if cores < 1:
            raise UserError(f"the Ray cluster at {address!r} has no cores for calls")
        options = {
            "num_cpus": 1,
            "max_retries": 0,
            "runtime_env": {"env_vars": {**own, **environment}},
        }
        remote = ray.remote(**options)(function)
        most = at_once or ahead * cores
        left = iter(enumerate(calls))
        running: dict[Any, int] = {}
        try:
            while True:
                for at, arguments in islice(left, most - len(running)):
                    running[remote.remote(*arguments)] = at
                if not running:
                    return
                for done in ray.wait(list(running), timeout=_TICK_S)[0]:
                    at = running.pop(done)
                    yield at, _result(ray, done)
        finally:
            for call in running:
                ray.cancel(call, force=True)


def _result(ray: Any, done: Any) -> Any:
    """Return a call's result, or raise what it raised."""
    try:
        return ray.get(done)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        raise UserError(
            f"a process on the Ray cluster ended: {str(error).partition(chr(10))[0]}"
        ) from error


def import_ray() -> Any:
    """Return Ray; a UserError that says how to install it."""
    try:
        import ray
    except ImportError as error:
        raise UserError(
            "this needs Ray, which is not installed: pip install "
            "'edge-training-workbench[measured]'; sweeps without an address, and simulations, go "
            "without it"
        ) from error
    return ray


@contextmanager
def own_settings(settings: Mapping[str, str], *, here: bool) -> Iterator[None]:
    """Let Ray, and what it starts in the block, have settings of its own in the environment.

    Ray keeps some of them, such as its token, for as long as a process lives: a connection under
    others would refuse what its own cluster calls. So they are read again, before and afterwards.
    """
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        _read_settings(here=here)
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _read_settings(*, here: bool) -> None:
    import_ray()
    from ray import _raylet
    from ray._private import ray_constants

    inner: Any = _raylet
    inner.Config.initialize("")
    inner.AuthenticationTokenLoader.instance().reset_cache()
    ray_constants.ENABLE_RAY_CLUSTER = not here  # else it listens on the loopback alone


def init(ray: Any, address: str, **options: Any) -> None:
    """Connect, or start Ray for address ``"local"``, with SIGTERM handled as before."""
    main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False, **options)
    finally:
        if main and handler is not None:
            signal.signal(signal.SIGTERM, handler)


def shut_down(ray: Any) -> None:
    """End the connection, or the Ray that was started here, and forget its settings."""
    gc.collect()  # references that are dropped later are taken for the next Ray's
    ray.shutdown()
    _read_settings(here=False)


def _knock(address: str) -> None:
    """Raise OSError where nobody listens: Ray itself would try again for many minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_S).close()


def check_address(address: object) -> None:
    """Refuse what is not the address of a cluster that is there."""
    if not isinstance(address, str) or address in ("", "local"):  # which would start one
        raise UserError(
            f"address is {address!r}; give that of a Ray cluster that is there: 'auto', "
            "'HOST:PORT' or 'ray://HOST:PORT'"
        )


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Yield Ray, connected to a cluster until the block ends, or longer if it was before.

    Raises UserError: Ray is not installed, or there is no such cluster.
    """
    check_address(address)
    ray = import_ray()
    if ray.is_initialized():
        own = ray.get_runtime_context().gcs_address
        if address != "auto" and address.rpartition(":")[2] != own.rpartition(":")[2]:
            raise UserError(
                f"this process uses another Ray already, at {own}; give that address, leave the "
                "session of measured runs, or end it with ray.shutdown()"
            )
        yield ray
        return
    try:
        _knock(address)
        with own_settings({}, here=False):
            init(ray, address)
    except Exception as error:
        raise UserError(
            f"no Ray cluster can be reached at {address!r}: {str(error).partition(chr(10))[0]}; "
            "`ray start --head` starts one; without an address, processes of this machine compute"
        ) from error
    try:
        yield ray
    finally:
        shut_down(ray)
