"""The server's process: everything put together, served by uvicorn, and ended in order.

SIGTERM and SIGINT end it: running leases stop at the end of their step and are saved, and the next server
goes on from there.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn

from hippotune import portable
from hippotune.errors import HippoError, InvalidInput
from hippotune.executors.base import Executor
from hippotune.executors.local.executor import Local
from hippotune.page.login import Visitor
from hippotune.sequences.custom import refuse_functions
from hippotune.serve.app import Application
from hippotune.serve.blobs import Blobs
from hippotune.serve.garbage import collect_when_quiet
from hippotune.serve.guard import Guard, UserLimits
from hippotune.serve.health import Health
from hippotune.serve.hub import Hub, ServerSetup
from hippotune.serve.pages import Pages
from hippotune.serve.probing import Probes
from hippotune.serve.studies import Studies
from hippotune.serve.tokens import Tokens
from hippotune.store.database import Database
from hippotune.store.homes import parse_home
from hippotune.store.served import ServedHome

LOOPBACK = ("127.0.0.1", "::1", "localhost")
_LAST_PORT = 65_535
_GRACE_SECONDS = 5
_KEEP_ALIVE_SECONDS = 75
# Engines have threads of their own: none keeps the one of HTTP waiting for long.
_SWITCH_SECONDS = 0.0001
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True)
class Options:
    """What ``hippo serve`` is told."""

    home: str | Path
    make_executor: Callable[[], Executor]
    store: str | None = None
    host: str = "127.0.0.1"
    port: int = 8477
    token_file: Path | None = None
    allow_code: bool = False
    worker_user: str | None = None
    hold: bool = False
    allow_hosts: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None
    limits: UserLimits = field(default_factory=UserLimits)


def serve(options: Options, say: Callable[[str], None]) -> None:
    """Serve until told to end."""
    _check(options)
    refuse_functions()
    sys.setswitchinterval(_SWITCH_SECONDS)
    os.environ.pop("HIPPO_TOKEN", None)  # a client's: neither the server nor what it starts has a use for it
    if options.worker_user is not None:
        _close_to_others(parse_home(options.home)[0])
    home = ServedHome(parse_home(options.home)[0])
    try:
        server = Server(options, home, say)
        collect_when_quiet()
        server.run()
    finally:
        home.release()


class Server:
    """One server; `run` serves until `stop`."""

    def __init__(self, options: Options, home: ServedHome, say: Callable[[str], None]) -> None:
        self._options = options
        self._home = home
        self._say = say
        self.url = ""
        folder = parse_home(options.home)[0]
        served = folder / "served"
        self._tokens = Tokens(options.token_file)
        health = Health()
        hosts = (options.host, socket.gethostname(), socket.getfqdn(), *options.allow_hosts)
        guard = Guard(self._tokens, health, hosts, options.limits)
        self._blobs = Blobs(served / "code", options.allow_code)
        probes = Probes(self._environment, options.worker_user)
        setup = ServerSetup(options.home, options.store, self._executor)
        self._hub = Hub(setup, self._blobs, probes, options.hold)
        self._studies = Studies(
            served / "studies",
            self._blobs,
            self._hub.identify,
            self._tokens,
            self._environment,
            lambda: self._own_url,
            options.worker_user,
            options.certificate,
        )
        self._pages = Pages(self._hub, self._studies, (*LOOPBACK, *hosts))
        self.app = app = Application(self._hub, self._studies, self._pages, guard, health, self.stop)
        self._config = uvicorn.Config(
            app.asgi,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            ssl_certfile=options.certificate,
            ssl_keyfile=options.key,
            ws="none",
        )
        _load(self._config)
        self._uvicorn = _Uvicorn(self._config, self._draining)

    def _executor(self) -> Executor:
        """Return the executor of a plan; its workers run as the user who may."""
        executor = self._options.make_executor()
        user = self._options.worker_user
        if user is not None:
            if not isinstance(executor, Local):
                raise InvalidInput("--worker-user needs workers of this machine: --executor local:WORKERS")
            executor.worker_user = user
        return executor

    def _environment(self) -> Mapping[str, str]:
        """Return the environment of processes with user code: that of workers, which they are forked with."""
        return self._options.make_executor().environment()

    def run(self) -> None:
        """Serve."""
        sock = _bound(self._options.host, self._options.port)
        scheme = "http" if self._options.certificate is None else "https"
        host, port = sock.getsockname()[:2]
        shown = self._options.host if ":" not in self._options.host else f"[{self._options.host}]"
        self.url = f"{scheme}://{shown}:{port}"
        anywhere = host in ("0.0.0.0", "::")
        self._own_url = f"{scheme}://127.0.0.1:{port}" if anywhere else self.url
        self._home.write_url(self._own_url)
        for line in self._start_message():
            self._say(line)
        try:
            self._uvicorn.run(sockets=[sock])
        finally:
            self._studies.close()
            self._hub.close()
            sock.close()

    def _start_message(self) -> list[str]:
        options = self._options
        lines = [f"serving {options.home} at {self.url}"]
        if self._tokens.is_open:
            lines.append(f"its page: {self._own_url}{self._pages.address(Visitor('', 'admin'))}")
        else:
            lines.append("its page: hippo show STUDY --web --url URL opens it, with HIPPO_TOKEN set")
        if options.allow_code and options.worker_user is None:
            lines.append(
                "users who may submit have a shell here: their code runs as this user, who can read the "
                "token file, the key and the store (--worker-user runs it as another one)"
            )
        elif options.allow_code:
            lines.append(f"code of clients runs as user {options.worker_user}")
        else:
            lines.append("code of clients is refused: trainers are installed here (--allow-code takes any)")
        if options.hold:
            lines.append("held: nothing is trained before POST /release")
        return lines

    @property
    def is_up(self) -> bool:
        """Whether it takes requests."""
        return self._uvicorn.started

    def stop(self) -> None:
        """Have it end; from any thread."""
        self._uvicorn.should_exit = True

    def _draining(self) -> None:
        """Have streams end, so that clients look for the next server."""
        self._studies.close()
        self._hub.drain()


class _Uvicorn(uvicorn.Server):
    """Tells when it is about to end, before it waits for streams."""

    def __init__(self, config: uvicorn.Config, draining: Callable[[], None]) -> None:
        super().__init__(config)
        self._draining = draining

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Have signals end the server in order, and the process no sooner."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then the server."""
        await asyncio.to_thread(self._draining)
        await super().shutdown(sockets)


def _check(options: Options) -> None:
    if not 0 <= options.port <= _LAST_PORT:
        raise InvalidInput(f"--port is {options.port}; expected 1 to {_LAST_PORT}, or 0 for any that is free")
    if options.key is not None and options.certificate is None:
        raise InvalidInput(f"--tls-key is {options.key}: give its certificate too, with --tls-certificate")
    if options.store is not None:
        Database.by(options.store).close()  # which says whether there can be such a database
    if options.token_file is None and options.host not in LOOPBACK:
        raise InvalidInput(
            f"host is {options.host!r}, which other machines reach: give --token-file with lines of NAME "
            "ROLE TOKEN, or stay on 127.0.0.1"
        )
    if options.worker_user is not None:
        try:
            portable.user_named(options.worker_user)
        except KeyError:
            raise InvalidInput(f"there is no user {options.worker_user!r} on this machine") from None
        if portable.user() != 0:
            raise InvalidInput("--worker-user needs a server that is started by root")
        try:
            subprocess.run([sys.executable, "-c", ""], check=True, user=options.worker_user, extra_groups=[])
        except (OSError, subprocess.CalledProcessError) as error:
            raise InvalidInput(
                f"user {options.worker_user!r} cannot run {sys.executable} ({error}): install Python and "
                "Hippo where that user may read them"
            ) from None


def _load(config: uvicorn.Config) -> None:
    """Have uvicorn make what it needs; only the files of TLS can be wrong."""
    try:
        config.load()
    except OSError as error:
        key = config.ssl_keyfile or "none"
        raise InvalidInput(
            f"--tls-certificate is {config.ssl_certfile} and --tls-key is {key}, which cannot be used "
            f"({error.strerror or error}); expected two files in PEM format that belong together"
        ) from error


def _close_to_others(home: Path) -> None:
    """Have all that the server writes be its own: a worker's user passes through to its checkpoints alone."""
    os.umask(0o077)
    served = home / "served"
    passed = (home, home / "checkpoints", served, served / "bundles")
    for folder in passed:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o711)
    for path in (*home.iterdir(), *served.iterdir()):
        if path not in passed:
            path.chmod(0o700 if path.is_dir() else 0o600)


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise HippoError(
            f"cannot serve at {host}:{port}: {error.strerror}; choose another --host or --port"
        ) from error
    sock.listen(1024)
    return sock
