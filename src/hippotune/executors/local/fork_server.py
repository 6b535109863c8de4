"""A process that has imported what programs need, and forks them: seconds become milliseconds.

The program is ``python -m hippotune.executors.local.fork_server PARENT DESCRIPTOR``. It imports Hippo's
worker and those `SLOW` libraries that a trainer's modules use. It runs no code of the user's and starts no
thread, so that a fork of it is as good as a fresh process. Each fork becomes a keeper with a program below:
a worker, or on a server also a study's tuner. The process ends with its parent, and `IDLE_SECONDS` after the
last of its programs: until then, a study that follows another begins at once.

A second one stands by where a rehearsal is to come: the fresh interpreter that it needs has to have other
addresses than the workers'. Its imports go on beside those of the first, so that no worker waits for them
later. Each worker has a connection of its own to it; one such process serves all plans of a program.

`multiprocessing` has a fork server too, one for a program. Its processes take over the program's main module,
and the environment in which it was started; here that decides how many threads libraries compute with.
"""

from __future__ import annotations

import atexit
import errno
import gc
import importlib
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Literal, get_args

from hippotune.executors.environment import GPU_VARIABLE
from hippotune.executors.kept import with_sources
from hippotune.executors.leaving import leave, leave_well
from hippotune.gc_pause import gc_paused_for_imports
from hippotune.scratch import mark
from hippotune.short import size

Library = Literal["numpy", "scipy", "sklearn", "xgboost", "lightgbm", "torch", "transformers", "lightning"]
SLOW: tuple[Library, ...] = get_args(Library)
"""Libraries that are slow to import, and that may be forked when they were."""
IDLE_SECONDS = 10.0
# A rehearsal comes when the first steps are trained.
_STANDBY_SECONDS = 60.0
# What differs between workers or studies without meaning anything to a library that is imported: which GPUs
# are visible, and how cuBLAS computes, is read when the first is used. A trainer on torch sets the latter;
# wandb sets the address of its service.
_NO_MATTER = (
    GPU_VARIABLE,
    "CUBLAS_WORKSPACE_CONFIG",
    "COLUMNS",
    "LINES",
    "OLDPWD",
    "PWD",
    "PYTEST_CURRENT_TEST",
    "WANDB_SERVICE",
    "_",
)
# What libraries set themselves when they are imported, here as in the server.
_SET_BY_LIBRARIES = ("KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK", "TORCHINDUCTOR_CACHE_DIR")
_MOST_BYTES = 1 << 20
_MOST_DESCRIPTORS = 8
_MOST_STARTS = 3
_CONNECT = "connect"


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """A program that is to be forked: a function, as ``package.module:name``, and its arguments.

    `descriptors` are the names of further arguments: the descriptors that come with it. `name` is what the
    system shows. `folder` is removed at its end; it begins in `directory`.
    """

    program: str
    arguments: tuple[object, ...]
    name: str
    folder: Path
    directory: str
    environment: dict[str, str]
    descriptors: tuple[str, ...] = ()


def used_by(trainer: type) -> tuple[str, ...]:
    """Return what is worth importing ahead for a trainer: what its modules have, and nothing else.

    What is loaded in a process may be part of its state, as torch's random numbers are.
    """
    own = [module.__name__ for module in _modules_of(trainer) if module.__name__.startswith("hippotune.")]
    return (*libraries_of(trainer), *own)


def libraries_of(trainer: type) -> tuple[Library, ...]:
    """Return which of the `SLOW` libraries a trainer's modules have."""
    found = {_library_of(value) for module in _modules_of(trainer) for value in vars(module).values()}
    return tuple(name for name in SLOW if name in found)


def _modules_of(trainer: type) -> list[ModuleType]:
    return [sys.modules[base.__module__] for base in trainer.__mro__ if base.__module__ in sys.modules]


def _library_of(value: object) -> str:
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return name.partition(".")[0] if isinstance(name, str) else ""


class ForkClient:
    """A connection to such a process. Any thread may call `fork`, but only one process at a time."""

    def __init__(self, connection: socket.socket) -> None:
        self._lock = threading.Lock()
        self._socket = connection

    def fork(self, request: ForkRequest, descriptors: Sequence[int]) -> tuple[int, int]:
        """Return the number of the keeper that was forked, and a descriptor of its process.

        Raises `EOFError` where the server has ended.
        """
        message = pickle.dumps(request)
        with self._lock:
            try:
                socket.send_fds(self._socket, [message], list(descriptors))
                answer, handles, _, _ = socket.recv_fds(self._socket, 32, 1)
            except OSError as error:
                if error.errno != errno.EMSGSIZE:  # it has ended; where it was closed for that too
                    raise EOFError from error
                raise OSError(
                    f"the environment and arguments of a worker take {size(len(message))}, which is more "
                    "than a process can be sent: remove variables that training does not need"
                ) from error
            if not answer:
                raise EOFError
            os.set_inheritable(handles[0], False)
            return int(answer), handles[0]


class ForkServer(ForkClient):
    """One such process, as its parent sees it."""

    def __init__(
        self, environment: Mapping[str, str], modules: Sequence[str], idle: float | None = None
    ) -> None:
        self.modules = tuple(modules)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        super().__init__(ours)
        with theirs:
            program = [sys.executable, "-P", "-m", __name__, str(os.getpid()), str(theirs.fileno())]
            self.process = subprocess.Popen(
                program,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=with_sources(environment),
                process_group=0,  # Ctrl-C does not reach it
            )
        with suppress(ConnectionError):  # where it has ended already, `fork` says so
            given = sys.path, list(modules), IDLE_SECONDS if idle is None else idle
            self._socket.send(pickle.dumps(given))

    def bring_in(self, modules: Sequence[str]) -> None:
        """Have further modules imported, before anything is forked."""
        with suppress(ConnectionError):
            self._socket.send(pickle.dumps([name for name in modules if name not in self.modules]))
        self.modules = tuple(modules)

    def connect(self) -> socket.socket | None:
        """Return a connection for another process to inherit; None where this one has ended.

        What was forked by way of it ends with it.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                socket.send_fds(self._socket, [pickle.dumps(_CONNECT)], [theirs.fileno()])
            except ConnectionError:
                ours.close()
                return None
        return ours

    def give_up(self) -> None:
        """End the process at once, even while it imports."""
        self.process.kill()
        self.close()

    def close(self) -> None:
        """Let the process end, and its workers with it."""
        self._socket.close()
        self.process.wait()


_Key = tuple[object, ...]
_servers: dict[_Key, ForkServer] = {}
_standing_by: dict[_Key, ForkServer] = {}
_expected: dict[_Key, ForkServer] = {}
_lock = threading.Lock()


def is_possible() -> bool:
    """Whether this system has what it takes."""
    return sys.platform == "linux" and hasattr(os, "pidfd_open")


def warm_up(environment: Mapping[str, str], modules: Sequence[str]) -> ForkServer:
    """Return the server for workers of an environment; it is started if there is none."""
    surroundings = _surroundings(environment)
    key = (*surroundings, tuple(modules))
    with _lock:
        _drop_ended(_servers)
        if key not in _servers:
            expected = _expected.pop(surroundings, None)
            if expected is not None and set(expected.modules) <= set(modules):
                expected.bring_in(modules)
                _servers[key] = expected
            else:
                _servers[key] = ForkServer(environment, modules)
                if expected is not None:
                    expected.give_up()
        return _servers[key]


def stand_by(environment: Mapping[str, str], modules: Sequence[str]) -> ForkServer:
    """Return the server for the fresh interpreters of an environment; it is started if there is none."""
    key = (*_surroundings(environment), tuple(modules))
    with _lock:
        _drop_ended(_standing_by)
        if key not in _standing_by:
            _standing_by[key] = ForkServer(environment, modules, max(_STANDBY_SECONDS, IDLE_SECONDS))
        return _standing_by[key]


def _drop_ended(servers: dict[_Key, ForkServer]) -> None:
    for key in [key for key, server in servers.items() if server.process.poll() is not None]:
        servers.pop(key).close()


def expect(environment: Mapping[str, str], modules: Sequence[str]) -> None:
    """Start a server for workers that will probably be wanted; where they are not, it ends with this process.

    It serves the first workers of this environment, if they need these modules and perhaps others. None is
    started where there is one that has them.
    """
    surroundings = _surroundings(environment)
    with _lock:
        _drop_ended(_servers)
        there = [server for key, server in _servers.items() if key[: len(surroundings)] == surroundings]
        if surroundings in _expected or any(set(modules) <= set(server.modules) for server in there):
            return
        expected = _expected[surroundings] = ForkServer(environment, modules)
    atexit.register(_give_up, expected)


def _give_up(server: ForkServer) -> None:
    if server in _expected.values():
        server.give_up()


def _surroundings(environment: Mapping[str, str]) -> _Key:
    no_matter = {*_NO_MATTER, *_SET_BY_LIBRARIES}
    matters = {name: value for name, value in environment.items() if name not in no_matter}
    return os.getpid(), frozenset(matters.items()), tuple(sys.path)


def fork(
    request: ForkRequest, environment: Mapping[str, str], modules: Sequence[str], descriptors: Sequence[int]
) -> tuple[int, int]:
    """Fork a program off the server for its environment; see `ForkClient.fork`."""
    for _ in range(_MOST_STARTS):
        server = warm_up(environment, modules)
        try:
            return server.fork(request, descriptors)
        except EOFError:  # it was idle for too long, or killed
            server.process.wait()
    raise OSError(f"the process that others are forked from ends at once, {_MOST_STARTS} times in a row")


# The process itself.


def main(parent: int, descriptor: int) -> None:
    """Import and fork, until the parent has ended or nothing is wanted for a while."""
    with socket.socket(fileno=descriptor) as channel:
        os.set_inheritable(descriptor, False)
        sys.path[:], modules, idle = pickle.loads(channel.recv(_MOST_BYTES))
        _import(["hippotune.executors.keeper", "hippotune.executors.worker.__main__", *modules])
        work = _serve(channel, parent, idle)
    if work is not None:
        work()


def _import(modules: Sequence[str]) -> None:
    with gc_paused_for_imports():
        for module in modules:
            with suppress(Exception):  # a worker that needs it will say what is wrong with it
                importlib.import_module(module)
        if "torch" in sys.modules:  # which the first optimizer of a process imports
            importlib.import_module("torch._dynamo")
        gc.freeze()


def _serve(parents: socket.socket, parent: int, idle: float) -> Callable[[], None] | None:
    """Fork until the end, then return None; in a fork, return what that is to do."""
    ends = os.pidfd_open(parent)
    if os.getppid() != parent:
        return None
    channels = {parents.fileno(): parents}
    children: dict[int, _Child] = {}
    events = select.poll()
    for descriptor in (ends, *channels):
        events.register(descriptor, select.POLLIN)
    server = os.getpid()
    while ready := events.poll(None if children else idle * 1000):
        for descriptor, _ in ready:
            if descriptor == ends:
                return None
            if descriptor in children:
                events.unregister(descriptor)
                os.waitpid(children.pop(descriptor).pid, 0)
                os.close(descriptor)
                continue
            channel = channels[descriptor]
            try:
                message, handles, _, _ = socket.recv_fds(channel, _MOST_BYTES, _MOST_DESCRIPTORS)
            except ConnectionError:  # the other end was killed before it had read an answer
                message = b""
            if not message:
                if channel is parents:
                    return None
                events.unregister(descriptor)
                channels.pop(descriptor).close()
                for handle, child in children.items():
                    if child.channel is channel:
                        signal.pidfd_send_signal(handle, signal.SIGTERM)
                continue
            asked = pickle.loads(message)
            if isinstance(asked, list):
                _import(asked)
                continue
            if asked == _CONNECT:
                channels[handles[0]] = socket.socket(fileno=handles[0])
                events.register(handles[0], select.POLLIN)
                continue
            if (forked := os.fork()) == 0:
                for inherited in (ends, *children):
                    os.close(inherited)
                for inherited_channel in channels.values():
                    inherited_channel.close()
                return partial(_become_keeper, asked, handles, server)
            process = os.pidfd_open(forked)
            children[process] = _Child(forked, channel)
            events.register(process, select.POLLIN)
            with suppress(OSError):
                socket.send_fds(channel, [str(forked).encode()], [process])
            for handle in handles:
                os.close(handle)
    return None


@dataclass(frozen=True, slots=True)
class _Child:
    """A keeper that was forked, and by way of which channel."""

    pid: int
    channel: socket.socket


def _become_keeper(request: ForkRequest, handles: Sequence[int], server: int) -> None:
    from hippotune.executors.keeper import keep

    lock, status, source, output, *own = handles
    for handle in handles:
        os.set_inheritable(handle, False)
    os.setpgid(0, 0)
    for stream, handle in enumerate((source, output, output)):
        os.dup2(handle, stream)
    for handle in (source, output):
        os.close(handle)
    os.environ.clear()
    os.environ.update(request.environment)
    os.chdir(request.directory)
    keep(partial(_become, request, lock, status, own), server, lock, status)


def _become(request: ForkRequest, lock: int, status: int, own: Sequence[int]) -> None:
    os.close(lock)
    os.close(status)
    mark(request.folder)
    Path("/proc/self/comm").write_text(request.name)
    module, _, name = request.program.partition(":")
    run = getattr(importlib.import_module(module), name)
    run(*request.arguments, **dict(zip(request.descriptors, own, strict=True)))
    leave_well()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
    leave()
