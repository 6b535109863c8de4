"""A study as a job of a Ray cluster, by Ray's own jobs: ``hippo submit --ray ADDRESS FILE``."""

from __future__ import annotations

import argparse
import secrets
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hippotune import short
from hippotune.cli.script import load
from hippotune.errors import HippoError, InvalidInput, MissingExtra

_LARGE_BYTES = 10 << 20
_LEFT_OUT = (".hippo", ".git", ".venv", "__pycache__")


def submit_to_ray(options: argparse.Namespace) -> int:
    """Submit a job, and say how to follow it."""
    study = load(options.file, options.arguments, options.module).study
    if study._storage is None and not study.home.is_absolute():
        raise InvalidInput(
            f"the study's home is {str(study.home)!r}: on the cluster it would be gone with Ray's session. "
            'Give it a place that lasts and that all nodes see: Study(home="/shared/hippo") or '
            'Study(home="s3://bucket/study")'
        )
    given = Path(options.file)
    folder = Path.cwd() if options.module else given.resolve().parent
    named = ["-m", options.file] if options.module else [given.name]
    command = [*named, *(["--", *options.arguments] if options.arguments else [])]
    large = sorted(_large_files(folder))
    for path, size in large:
        print(f"left out, because it is large: {path.relative_to(folder)} ({short.size(size)})")
    environment: dict[str, Any] = {
        "working_dir": str(folder),
        "excludes": [*_LEFT_OUT, *(f"/{path.relative_to(folder)}" for path, _ in large)],
    }
    if options.pip:
        environment["pip"] = options.pip
    client = _client(options.ray)
    try:
        job = client.submit_job(
            entrypoint=f"python -m hippotune run {shlex.join(command)}",
            submission_id=f"hippo-{study.name}-{secrets.token_hex(4)}",
            runtime_env=environment,
            metadata={"job_name": study.name},
        )
    except RuntimeError as error:
        raise HippoError(f"the cluster at {options.ray} did not take the job: {error}") from error
    address = f"--address {shlex.quote(options.ray)}"
    print(f"submitted: {job}")
    print(f"to follow it: ray job logs {address} --follow {job}")
    print(f"to stop it:   ray job stop {address} {job}")
    return 0


def _large_files(folder: Path) -> Iterator[tuple[Path, int]]:
    for path in folder.rglob("*"):
        if not set(_LEFT_OUT).intersection(path.relative_to(folder).parts) and path.is_file():
            size = path.stat().st_size
            if size > _LARGE_BYTES:
                yield path, size


def _client(address: str) -> Any:
    if not address.startswith(("http://", "https://")):
        raise InvalidInput(
            f"--ray is {address!r}; expected the address of the cluster's dashboard, such as http://head:8265"
        )
    try:
        from ray.job_submission import JobSubmissionClient
    except ImportError as error:
        raise MissingExtra("hippo submit --ray needs the extra ray: pip install 'hippotune[ray]'") from error
    try:
        return JobSubmissionClient(address)
    except (ConnectionError, RuntimeError) as error:
        raise HippoError(
            f"cannot reach a Ray cluster at {address}: {error}. Expected the address of its dashboard, such "
            "as http://head:8265"
        ) from error
