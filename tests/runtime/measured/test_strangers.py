"""Strangers are refused before anything is unpickled, and disturb nothing."""

from __future__ import annotations

import pickle
import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.runtime.measured.listening import Listening
from tests.runtime.programs import pair, receives
from workbench.runtime import Context, Message
from workbench.runtime.measured import connection as connections
from workbench.runtime.measured import measure
from workbench.runtime.measured.connection import Caller, RefusedError, connect
from workbench.runtime.measured.frames import End, Outgoing
from workbench.runtime.measured.packing import pack
from workbench.runtime.measured.sessions import Session

GREETING = b"#CHALLENGE#"


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


class Target(Listening):
    """A listening process that strangers call."""

    def call(self) -> socket.socket:
        return socket.create_connection(self.listener.address)

    def refuses(self, count: int) -> bool:
        """Whether so many were refused, soon: they hear of it before they are counted."""
        end_s = time.monotonic() + 60
        while self.listener.refused < count and time.monotonic() < end_s:
            time.sleep(0.01)
        return self.listener.refused == count

    def works(self) -> bool:
        """Whether a peer who knows the token still gets a message through."""
        with self.connect(3) as peer:
            message = Outgoing(Message(3, "hello", pack("payload"), 5.0), 0.0)
            data = message.data(0, message.data_bytes)
            for frame in (message.head, *data, pickle.dumps(End(False, 0.0))):
                peer.send_bytes(frame)
            self.some.acquire(timeout=60)
        caller, arrival = self.arrivals.pop()
        return (caller, arrival.message.payload) == (3, "payload") and not self.arrivals


def frame(content: bytes) -> bytes:
    """A frame as a connection sends it."""
    return struct.pack("!i", len(content)) + content


@pytest.fixture
def listening() -> Any:
    made = Target()
    yield made
    made.close()


def ended(connection: socket.socket) -> bool:
    """Whether the other end hangs up, whatever it said before."""
    with connection:
        connection.settimeout(60)
        try:
            while connection.recv(1_000):
                pass
        except ConnectionResetError:
            pass
        return True


def test_who_knows_the_token_gets_through(listening: Target) -> None:
    assert listening.works()
    assert listening.listener.refused == 0


@pytest.mark.parametrize("token", [b"", bytes(32), b"x" * 1_000])
def test_a_wrong_token_is_refused(listening: Target, token: bytes) -> None:
    with pytest.raises(RefusedError):
        connect(listening.listener.address, Caller(0, 0), token)
    assert listening.works()
    assert listening.refuses(1)


def test_a_listener_that_does_not_know_the_token_is_refused() -> None:
    one, other = Target(), Target()
    with pytest.raises(RefusedError):
        connect(one.listener.address, Caller(0, 0), other.token)
    for each in (one, other):
        each.close()


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n\r\n" * 20, bytes(10_000), b"\xff" * 104, frame(bytes(16))]
)
def test_garbage_is_refused(listening: Target, garbage: bytes) -> None:
    connection = listening.call()
    connection.sendall(garbage)
    assert ended(connection)
    assert listening.works()
    assert listening.refuses(1)


def test_nothing_is_unpickled_before_the_token_is_proved(listening: Target, tmp_path: Path) -> None:
    bomb = pickle.dumps(Bomb(tmp_path / "went off"))
    for before in (b"", frame(bytes(16)), frame(bytes(16)) + frame(GREETING + bytes(20))):
        connection = listening.call()
        connection.sendall(before + frame(bomb))
        assert ended(connection)
    assert listening.works()
    assert not (tmp_path / "went off").exists()


def test_token_never_travels_and_what_was_overheard_is_of_no_use(listening: Target) -> None:
    heard: list[bytes] = []

    def pass_on(source: socket.socket, target: socket.socket) -> None:
        while data := source.recv(1_000):
            heard.append(data)
            target.sendall(data)

    with socket.create_server(("127.0.0.1", 0)) as between:
        connecting = threading.Thread(
            target=connect, args=(between.getsockname(), Caller(5, 0), listening.token)
        )
        connecting.start()
        caller, listener = between.accept()[0], listening.call()
        threading.Thread(target=pass_on, args=(caller, listener), daemon=True).start()
        threading.Thread(target=pass_on, args=(listener, caller), daemon=True).start()
        connecting.join()
    assert all(listening.token not in part for part in heard)
    again = listening.call()
    again.sendall(b"".join(heard))
    assert ended(again)


def test_silent_callers_keep_no_peer_out(listening: Target) -> None:
    silent = [listening.call() for _ in range(20)]
    assert listening.works()
    for connection in silent:
        connection.close()


def test_strangers_do_not_disturb_a_run(ray_session: Session) -> None:
    def attack() -> int:
        """Knock at all ports of this node's process that greet as a node's do."""
        knocked = 0
        for connection in psutil.Process().net_connections("tcp"):
            if connection.status != psutil.CONN_LISTEN:
                continue
            with socket.create_connection(connection.laddr[:2]) as stranger:
                stranger.settimeout(0.5)
                try:
                    greets = GREETING in stranger.recv(100)
                except TimeoutError:
                    greets = False
                if greets:
                    stranger.sendall(b"let me in" * 100)
                    knocked += 1
        return knocked

    async def attacked(context: Context) -> list[Any]:
        knocked = [await context.compute(attack, cost_s=0) for _ in range(3)]
        context.send(1, Message(0, "go"))
        await context.receive("done")
        return knocked

    async def sends(context: Context) -> None:
        await context.receive("go")
        context.send(0, Message(1, "done", control=True))

    run = measure(pair(), [attacked, sends])
    assert run.results[0] == [1, 1, 1]
    assert run.refused == 3


def test_ray_and_the_nodes_listen_on_the_loopback_alone(ray_session: Session) -> None:
    async def look(context: Context) -> list[str]:
        connections = psutil.Process().net_connections("inet")
        return [each.laddr.ip for each in connections if each.status == psutil.CONN_LISTEN]

    addresses = [*measure(pair(), [look, receives(0)]).results[0]]
    own = psutil.Process()
    for process in [own, *own.children(recursive=True)]:
        for connection in process.net_connections("inet"):
            if connection.status == psutil.CONN_LISTEN:
                addresses.append(connection.laddr.ip)
    assert len(addresses) > 3
    assert {address.removeprefix("::ffff:") for address in addresses} <= {"127.0.0.1", "::1"}


def test_idle_callers_make_room_for_those_that_prove_the_token(listening: Target) -> None:
    idle = [listening.call() for _ in range(200)]
    assert listening.works()
    assert all(ended(connection) for connection in idle[: len(idle) - 64])
    for connection in idle:
        connection.close()


def test_a_caller_tries_again_where_it_is_not_greeted(monkeypatch: pytest.MonkeyPatch) -> None:
    target, tried = Target(), []
    own = socket.create_connection

    def hangs_up_twice(*arguments: Any, **options: Any) -> socket.socket:
        tried.append(arguments)
        if len(tried) == 3:
            return own(*arguments, **options)
        connection, other = socket.socketpair()
        other.close()
        return connection

    monkeypatch.setattr(socket, "create_connection", hangs_up_twice)
    assert target.works()
    assert len(tried) == 3
    target.close()


def test_an_address_that_never_greets_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "TIMEOUT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        host, port = mute.getsockname()
        with pytest.raises(RefusedError, match=rf"{host}:{port} ended \d+ connections within 0.3"):
            connect((host, port), Caller(0, 0), bytes(32))
