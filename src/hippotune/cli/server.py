"""Servers as arguments of commands: named by a URL, found by the home that they have, or started."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

from hippotune.cli.studies import add_store, add_url, home_of
from hippotune.errors import HippoError
from hippotune.store.served import served_at

_START_SECONDS = 60.0


def add_server(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a server."""
    add_store(parser)
    add_url(parser)


def url_of(options: argparse.Namespace) -> str:
    """Return the address of the server that the arguments name."""
    if options.url is not None:
        return str(options.url)
    home = home_of(options.home)
    url = served_at(home)
    if not url:
        raise HippoError(
            f"no server is running for the home {home}: start one with hippo serve, or name one with --url"
        )
    return url


def start_server(home: Path, executor: str, storage: str | None = None, store: str | None = None) -> str:
    """Start a server for a home, on loopback and at any port, that outlives this process; return its URL.

    `storage` is where its checkpoints are, and `store` its database, where they are not below it.
    """
    home.mkdir(parents=True, exist_ok=True)
    log = home / "server.log"
    command = [sys.executable, "-m", "hippotune", "serve", "--home", storage or str(home), "--port", "0"]
    environment = dict(os.environ)
    if store is not None:
        store, password = _apart(store)
        command += ["--store", store]
        environment |= {"PGPASSWORD": password} if password else {}
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*command, "--allow-code", "--executor", executor],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        if url := served_at(home):
            return url
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise HippoError(f"a server for {home} did not start; see {log}")


def _apart(store: str) -> tuple[str, str | None]:
    """Return the URL of a database without its password, which others would read in a list of processes."""
    parts = urlsplit(store)
    if parts.password is None:
        return store, None
    user, _, place = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user.partition(':')[0]}@{place}").geturl(), unquote(parts.password)
