"""How a trainer's class gets to a server: by name, in a bundle of its project, or pickled by value."""

from __future__ import annotations

import functools
import hashlib
import io
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from hippotune import short
from hippotune.errors import InvalidInput
from hippotune.executors.local.fork_server import libraries_of
from hippotune.executors.shipping import is_importable, wrap
from hippotune.identity.ownership import is_users
from hippotune.identity.process import changed_settings
from hippotune.serve.client.api import Api
from hippotune.serve.definition import Code
from hippotune.trainers.base import Trainer

Kind = Literal["entry", "bundle", "value"]
_LARGE_BYTES = 10 << 20
_STAMP = (1980, 1, 1, 0, 0, 0)


def send_code(api: Api, trainer: type[Trainer], kind: Kind | None, notes: list[str]) -> Code:
    """Have a server know a trainer; `notes` are for a person."""
    kind = kind or _usual(trainer)
    name = f"{trainer.__module__}.{trainer.__qualname__}"
    entry = f"{trainer.__module__}:{trainer.__qualname__}"
    libraries, process = libraries_of(trainer), changed_settings()
    if kind == "entry":
        return Code("entry", name, entry, libraries=libraries, process=process)
    if kind == "value":
        parcel = wrap(trainer)
        digest = send(api, parcel.content)
        path = tuple(str(Path(place).absolute()) for place in parcel.path)
        return Code("value", name, "", digest, parcel.by_value, path, parcel.arguments, libraries, process)
    root = project_of(trainer)
    if root is None:
        raise InvalidInput(f"{name} is in no project that git tracks: expected code='value' or code='entry'")
    content, left_out = bundle(root)
    notes += [
        f"left out of the bundle, because it is large: {path} ({short.size(size)})" for path, size in left_out
    ]
    places = [Path(place).resolve() for place in sys.path]
    below = [str(place.relative_to(root)) for place in places if place.is_relative_to(root)]
    arguments = tuple(sys.argv)
    path = tuple(dict.fromkeys(below))
    return Code("bundle", name, entry, send(api, content), (), path, arguments, libraries, process)


def in_reach(code: Code) -> Callable[[str], bool]:
    """Return what says whether a server's processes can import a module: it is installed, or in a bundle."""

    def can_import(module: str) -> bool:
        return not is_users(module, "") or (code.kind == "bundle" and is_importable(module))

    return functools.cache(can_import)


def send(api: Api, content: bytes) -> str:
    """Send a file; return its digest."""
    digest = hashlib.sha256(content).hexdigest()
    api.call("PUT", f"/code/{digest}", content)
    return digest


def _usual(trainer: type[Trainer]) -> Kind:
    """Choose by where the class is from: a script or notebook, a project, or an installed package."""
    modules = {base.__module__ for base in trainer.__mro__}
    if not all(map(is_importable, modules)):
        return "value"
    if project_of(trainer) is not None:
        return "bundle"
    return "value" if is_users(trainer.__module__, "") else "entry"


def project_of(trainer: type) -> Path | None:
    """Return the folder of the project that git tracks a class's file in; None where it does not."""
    file = getattr(sys.modules.get(trainer.__module__), "__file__", None)
    if file is None or "site-packages" in Path(file).parts:
        return None
    path = Path(file).resolve()
    tracked = _git(path.parent, "ls-files", "--error-unmatch", path.name)
    root = _git(path.parent, "rev-parse", "--show-toplevel")
    return None if tracked is None or root is None else Path(root.strip())


def bundle(root: Path) -> tuple[bytes, list[tuple[str, int]]]:
    """Return the tracked files of a project as an archive that is the same for the same files.

    Large files are left out, and returned with their sizes.
    """
    listed = _git(root, "ls-files", "-z") or ""
    left_out: list[tuple[str, int]] = []
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(filter(None, listed.split("\0"))):
            path = root / name
            if path.is_symlink() or not path.is_file():
                continue
            if (size := path.stat().st_size) > _LARGE_BYTES:
                left_out.append((name, size))
                continue
            archive.writestr(zipfile.ZipInfo(name, _STAMP), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return file.getvalue(), left_out


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None
