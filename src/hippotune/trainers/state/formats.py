"""Checkpoint files: how a trainer's state is written, and read again.

There are three kinds, by what the trainer defines:

* nothing: the whole object is saved. The file is torch's own, as ``torch.save`` writes it: the pickled graph
  as bytes, and the memory of all tensors. Where torch is not loaded, it is one pickle.
* `state_dict` and `load_state_dict`: data only, in torch's file, and read with ``weights_only``.
* `save` and `load`: whatever files they write, in a tar archive.

All of them hold the random state too. A file is read only after its content was found to be what this plan's
own workers wrote.
"""

from __future__ import annotations

import io
import pickle
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, Literal, cast

import numpy as np

from hippotune import scratch
from hippotune.errors import CheckpointError, TrainerError
from hippotune.identity import library_settings
from hippotune.trainers import seeding
from hippotune.trainers.memory import is_out_of_memory
from hippotune.trainers.state.pickling import Known, Pickled, Reference, dumps, loads

Kind = Literal["object", "state_dict", "files"]
Write = Callable[[BinaryIO], None]
Source = BinaryIO | io.RawIOBase
"""A file to read a state from."""

_FORMAT = 4
_ZIP = b"PK"
RANDOM = "random"
_STATE = "state"


def kind_of(trainer: type) -> Kind:
    """Return how a trainer's state is saved; `TrainerError` where it defines half of a way only."""
    for kind, pair in (("files", ("save", "load")), ("state_dict", ("state_dict", "load_state_dict"))):
        defined = [name for name in pair if callable(getattr(trainer, name, None))]
        if len(defined) == 1:
            (missing,) = set(pair) - set(defined)
            raise TrainerError(
                f"{trainer.__name__} defines {defined[0]}() but not {missing}(): define both; or neither, "
                "and everything on self is saved"
            )
        if defined:
            return kind  # type: ignore[return-value]
    return "object"


# The whole object.


@dataclass(frozen=True)
class Whole:
    """A copy of a whole state, which further training leaves alone."""

    pickled: Pickled

    @classmethod
    def of(cls, trainer: Any, known: Known) -> Whole:
        """Copy the present state."""
        random = seeding.capture()
        # Words by the thousand, as one value: the pickler of states looks at every value that it meets.
        settings = library_settings.capture()
        words = pickle.dumps((random.pop("python"), random.pop("numpy"), settings), protocol=5)
        return cls(dumps((known.marked(vars(trainer)), random, words, _hooks_numbered()), known, trainer))

    def write(self, file: BinaryIO) -> None:
        """Write it."""
        graph, memory = self.pickled.graph, self.pickled.memory
        if (torch := sys.modules.get("torch")) is None:
            pickle.dump({"hippo": _FORMAT, "graph": graph}, file, protocol=5)
            return
        content = torch.frombuffer(bytearray(graph), dtype=torch.uint8)
        data = None if memory is None else memory.data()
        torch.save({"hippo": _FORMAT, "graph": content, "memory": data}, file)


def read_whole(
    file: Source, resolve: Callable[[Reference], Any]
) -> tuple[dict[str, Any], seeding.RandomState, library_settings.Settings]:
    """Return the attributes, the random state and the settings that a file holds."""
    content = _read_data(file)
    if content.get("hippo") != _FORMAT or "graph" not in content:
        raise CheckpointError("a checkpoint is not of the form that this version of Hippo writes")
    graph = content["graph"]
    memory = None
    if (data := content.get("memory")) is not None:
        from hippotune.trainers.state.memory import Memory

        memory = Memory.of_data(data)
    graph = graph if isinstance(graph, bytes) else graph.numpy().tobytes()
    attributes, random, words, hooks = loads(Pickled(graph, memory), resolve)
    random["python"], random["numpy"], settings = pickle.loads(words)
    if hooks and (torch := sys.modules.get("torch")) is not None:
        handles = torch.utils.hooks.RemovableHandle
        handles.next_id = max(handles.next_id, hooks)
    return attributes, random, settings


def _hooks_numbered() -> int:
    """Return the number of the next hook of torch: a new one must not take the place of a saved one."""
    torch = sys.modules.get("torch")
    return 0 if torch is None else int(torch.utils.hooks.RemovableHandle.next_id)


# Data only.


def data_of(trainer: Any) -> bytes:
    """Return what `state_dict` says, and the random state, as the content of a file."""
    random = seeding.capture()
    with seeding.put_back():
        state = trainer.state_dict()
    file = io.BytesIO()
    content = {"hippo": _FORMAT, _STATE: state, RANDOM: random}
    try:
        if (torch := sys.modules.get("torch")) is None:
            pickle.dump(content, file, protocol=5)
        else:
            torch.save(content, file)
        file.seek(0)
        _read_data(file)
    except Exception as error:
        raise TrainerError(
            f"state_dict() of {type(trainer).__name__} returns something that cannot be saved as data "
            f"({error}); expected numbers, strings, tensors, arrays, and lists, tuples and dicts of these"
        ) from error
    return file.getvalue()


def put_data(trainer: Any, file: Source) -> None:
    """Have a trainer take back what `data_of` returned."""
    content = _read_data(file)
    trainer.load_state_dict(content[_STATE])
    seeding.restore(content[RANDOM])


def _read_data(file: Source) -> dict[str, Any]:
    """Read a file of torch's, or a pickle of plain data."""
    try:
        start = file.read(len(_ZIP))
        file.seek(0)
        if start == _ZIP:
            import torch

            with torch.serialization.safe_globals(_of_numpy()):
                content = torch.load(cast(BinaryIO, file), map_location="cpu", weights_only=True)
        else:
            content = _DataUnpickler(file).load()
    except (CheckpointError, MemoryError, OSError):
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise CheckpointError(f"a checkpoint cannot be read: {type(error).__name__}: {error}") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"a checkpoint holds a {type(content).__name__}; expected a dict")
    return content


class _DataUnpickler(pickle.Unpickler):
    """Reads plain values and arrays, and nothing that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what is needed for arrays and dicts; refuse everything else."""
        for allowed in _of_numpy():
            if (allowed.__module__, allowed.__qualname__) == (module, name):
                return allowed
        if (module, name) == ("collections", "OrderedDict"):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is not data")


def _of_numpy() -> list[Any]:
    """Return what NumPy's arrays and numbers are made again by."""
    array = np.zeros(1)
    kinds = {type(np.dtype(code)) for code in np.typecodes["All"] if code not in "OVMm"}
    makers = {array.__reduce__()[0], array.__reduce_ex__(5)[0], np.float64(0).__reduce__()[0]}
    return [np.ndarray, np.dtype, *makers, *kinds]


# Files of the trainer's own.


def files_of(trainer: Any) -> Write:
    """Let a trainer save its files now; return what writes them as one."""
    random = pickle.dumps(seeding.capture(), protocol=5)
    folder = TemporaryDirectory(dir=scratch.place())
    path = Path(folder.name) / _STATE
    with seeding.put_back():
        trainer.save(path)
    if not path.exists():
        elsewhere = sorted(Path(folder.name).iterdir())
        folder.cleanup()
        message = f"save() of {type(trainer).__name__} wrote nothing to the path that it was given"
        if elsewhere:
            message += (
                f", {path.name}; it wrote {elsewhere[0].name}. Where a library appends an ending, give it an "
                "open file instead"
            )
        raise TrainerError(message)

    def write(file: BinaryIO) -> None:
        with folder, tarfile.open(fileobj=file, mode="w|") as archive:
            archive.add(path, _STATE, filter=_without_time)
            entry = tarfile.TarInfo(RANDOM)
            entry.size = len(random)
            archive.addfile(entry, io.BytesIO(random))

    return write


def _without_time(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mtime = 0  # equal states make equal files
    return entry


def put_files(trainer: Any, file: Source) -> None:
    """Have a trainer load the files that `files_of` kept."""
    with TemporaryDirectory(dir=scratch.place()) as folder:
        try:
            with tarfile.open(fileobj=file, mode="r|") as archive:
                if hasattr(tarfile, "data_filter"):  # not in the first releases of Python 3.11
                    archive.extraction_filter = tarfile.data_filter
                archive.extractall(folder)
        except tarfile.TarError as error:
            raise CheckpointError(f"a checkpoint cannot be read: {error}") from error
        trainer.load(Path(folder) / _STATE)
        seeding.restore(pickle.loads((Path(folder) / RANDOM).read_bytes()))
