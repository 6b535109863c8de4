"""A live state as plain data: every place in the object graph, by name, with a digest of its bits.

What counts is what a checkpoint keeps, as a program sees it:

* types, plain values and the bits of numbers, arrays and tensors, with dtypes, shapes, strides, gradients;
* the order of dicts, aliases, and which arrays and tensors are views of one memory;
* functions by their code and the variables of their closures, random generators by their states, sets by
  their items, and all other objects by what pickle would save of them.

What is found by its name (classes, modules, functions) counts by name, and so does what `prepare` left. Two
things are noted that only explain what differs elsewhere: the order in which a set is gone through, and
attributes that a class leaves out when it is pickled. No id and no address is in a fingerprint.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections import deque
from collections.abc import Hashable, Iterable
from typing import Any, Literal

from hippotune.gc_pause import gc_paused
from hippotune.identity.ownership import is_users
from hippotune.protocol.fingerprint import UNSAVED, Fingerprint, Kind, Leaf, is_within
from hippotune.trainers import seeding
from hippotune.trainers.state import contents, formats, walk
from hippotune.trainers.state.contents import Content
from hippotune.trainers.state.opened import Key
from hippotune.trainers.state.opening import CONTAINERS, NO_IDENTITY, memory, opened, random_state
from hippotune.trainers.state.pickling import Known
from hippotune.trainers.state.prepared import PREPARED

_GENERATORS = {
    "python": "the random generator of Python",
    "numpy": "the random generator of NumPy",
    "cpu": "the random generator of torch",
    "cuda": "the random generators of CUDA",
    "mps": "the random generator of MPS",
}
_MOST_LEAVES = 20_000
_MOST_UNSAVED = 1_000
_MOST_OF_AN_ITEM = 1_000
_DEEP = 40

_Unsaved = Literal["", "unsaved", "inside", "internal"]


def fingerprint(trainer: Any, known: Known | None = None) -> Fingerprint:
    """Return what the state of a trainer is; `known` has what a checkpoint would refer to by name."""
    kind = formats.kind_of(type(trainer))
    volatile = tuple(sorted(getattr(type(trainer), "volatile", ())))
    random = [
        Leaf(_GENERATORS[name], "random", "a random generator", _Walk().digest_of(state))
        for name, state in seeding.capture().items()
    ]
    itself = of_graph(trainer, "self", known or Known(), volatile, unsaved=kind != "object")
    match kind:
        case "state_dict":
            with seeding.put_back():
                state = trainer.state_dict()
            said, saved_by = of_graph(state, "state_dict()", volatile=volatile), "state_dict()"
        case "files":
            said, saved_by = _of_files(trainer), "save()"
        case _:
            said, saved_by = (), ""
    return Fingerprint((*said, *itself, *random), saved_by, volatile)


def of_graph(
    root: Any,
    name: str = "self",
    known: Known | None = None,
    volatile: Iterable[str] = (),
    unsaved: bool = False,
) -> tuple[Leaf, ...]:
    """Return the leaves of an object graph; `unsaved` if no checkpoint keeps it."""
    with gc_paused():
        return _Walk(known, volatile).run(root, name, unsaved)


def _of_files(trainer: Any) -> tuple[Leaf, ...]:
    content = io.BytesIO()
    formats.files_of(trainer)(content)
    content.seek(0)
    found = []
    with tarfile.open(fileobj=content, mode="r") as archive:
        for entry in archive:
            if (file := archive.extractfile(entry)) is not None and entry.name != formats.RANDOM:
                text = f"a file of {entry.size:,} bytes"
                found.append(Leaf(f"save() {entry.name}", "text", text, _digest(file.read())))
    return tuple(found)


class _Path:
    """A way from the root: the way before, and the text or the key of a dict that leads on.

    `digest` stands for the way, the same in every process. `unsaved` is what it leads to if no checkpoint
    keeps it: "internal" what a library leaves out, "inside" what is in an object of a library's.
    """

    __slots__ = ("before", "depth", "digest", "step", "top", "unsaved")

    def __init__(self, before: _Path | None, step: Any, unsaved: _Unsaved = "") -> None:
        self.before = before
        self.step = step
        self.depth: int = 0 if before is None else before.depth + 1
        self.top: _Path = self if before is None or before.before is None else before.top
        self.unsaved: _Unsaved = unsaved or ("" if before is None else before.unsaved)
        text = f"key {step.number}" if isinstance(step, Key) else step
        self.digest: str = _digest((before.digest if before else "") + text)


class _Walk:
    def __init__(
        self, known: Known | None = None, volatile: Iterable[str] = (), around: _Walk | None = None
    ) -> None:
        self._known = known or Known()
        self._volatile = tuple(volatile)
        self._met: dict[Hashable, _Path] = {} if around is None else dict(around._met)
        self._names: dict[int, _Path] = {}  # the first way to an object that does not end at a key
        self._found: list[tuple[_Path, Kind, str, Content, _Path | None]] = []
        self._rest: dict[_Path, Any] = {}
        self._waiting: deque[tuple[_Path, Any]] = deque()
        self._sets: deque[tuple[_Path, list[Any]]] = deque()  # of objects: after all else is known
        self._unsaved = 0
        self._name = self._home = ""
        self._trainer: _Path | None = None
        self._kept: list[Any] = []  # what is made on the way must not be freed, or its id would come again

    def run(self, root: Any, name: str, unsaved: bool) -> tuple[Leaf, ...]:
        """Walk from the root on, and return all leaves."""
        self._home = type(root).__module__
        first = _Path(None, name, "unsaved" if unsaved else "")
        if self._known.attributes:
            self._trainer = first
        self._walk(first, root)
        texts: dict[tuple[str, bool], int] = {}
        done = []
        for path, kind, text, content, alias in self._found:
            written = self._written(path)
            place = written, kind in ("order", *UNSAVED)
            texts[place] = texts.get(place, 0) + 1
            if texts[place] > 1:
                written = f"{written} ({texts[place]})"
            if alias is not None:
                text += f" {self._written(alias)}"
            done.append(Leaf(written, kind, text, content.digest, *content[1:]))
        for path, rest in self._rest.items():
            done.append(Leaf(f"{self._written(path)} (further in)", "structure", "much", rest.hexdigest()))
        return tuple(done)

    def digest_of(self, value: Any, most: int | None = None) -> str:
        """Return a digest of all that a value is."""
        self._walk(_Path(None, ""), value, most)
        return _digest("".join(f"{path.digest}{it.digest}" for path, _, _, it, _ in self._found))

    def _walk(self, path: _Path, root: Any, most: int | None = None) -> None:
        self._name = path.step
        self._waiting.append((path, root))
        while self._waiting or self._sets:
            if most is not None and len(self._found) >= most:
                return
            if self._waiting:
                self._visit(*self._waiting.popleft())
            else:
                self._order_items(*self._sets.popleft())

    def _visit(self, path: _Path, value: Any) -> None:
        is_attribute = path.depth == 1 and path.before is self._trainer
        if is_attribute and self._known.is_own(path.step.removeprefix("."), value):
            self._note_prepared(path, path.step)
            return
        if (content := contents.plain(value)) is not None:
            self._note(path, *content)
            return
        if path.depth and (reference := self._known.names.get(id(value))) is not None:
            if reference[0] == PREPARED:
                self._note_prepared(path, reference[1])
                return
            if reference[0] == "class":
                self._note(path, "text", f"the class {value.__qualname__}", Content(_digest(str(reference))))
                return
        self._kept.append(value)
        if not isinstance(path.step, Key) or path.step.is_value:
            self._names.setdefault(id(value), path)
        first = path if isinstance(value, NO_IDENTITY) else self._met.setdefault(id(value), path)
        if first is not path:
            self._alias(path, first, "the same object as")
            return
        if type(value) in CONTAINERS:  # most objects are
            self._open(path, value)
            return
        if (told := contents.by_repr(value)) is not None:
            self._note(path, *told)
            return
        if (state := random_state(value)) is not None:
            self._note(path, "random", "a random generator", Content(_Walk().digest_of(state)))
        elif (told := contents.array(value)) is not None:
            self._note(path, *told, *self._view(path, value))
        self._open(path, value)

    def _view(self, path: _Path, value: Any) -> tuple[str, _Path] | tuple[()]:
        """Return what an array or a tensor is a view of, where it is not the first one."""
        if (where := memory(value)) is None:
            return ()
        first = self._met.setdefault(where[0], path)
        return () if first is path else (f", from byte {where[1]} on a view of the memory of", first)

    def _open(self, path: _Path, value: Any) -> None:
        found = opened(value, is_root=path.depth == 0, is_saved=not path.unsaved)
        if found.text is not None:
            self._note(path, "structure", found.text, Content(_digest(found.token), found.shape))
        is_theirs = type(value) not in CONTAINERS and not is_users(type(value).__module__, self._home)
        inside = "inside" if is_theirs and path.depth and path.unsaved == "unsaved" else path.unsaved
        for step, child in found.children:
            self._add(_Path(path, step, inside), child)
        if found.items is not None:
            self._sets.append((path, found.items))
        if found.order is not None:
            self._note(path, "order", found.order, Content(_digest(found.order)))
        for step, child in found.unsaved:
            if self._unsaved < _MOST_UNSAVED:
                self._unsaved += 1
                self._add(_Path(path, step, "internal" if is_theirs else "unsaved"), child)

    def _add(self, path: _Path, child: Any) -> None:
        if self._volatile and path.depth <= _DEEP and is_within(self._written(path), self._volatile):
            return
        self._waiting.append((path, child))

    def _order_items(self, path: _Path, items: list[Any]) -> None:
        """Put the items of a set, whose order means nothing, into one that every process would find."""

        def place(item: Any) -> str:
            met = self._met.get(id(item))
            return met.digest if met else _Walk(self._known, (), self).digest_of(item, _MOST_OF_AN_ITEM)

        for number, item in enumerate(sorted(items, key=place)):
            self._add(_Path(path, f"{{{number}}}"), item)

    # What is found.

    def _note_prepared(self, path: _Path, name: str) -> None:
        self._note(path, "structure", "what prepare() left", Content(_digest(str((PREPARED, name)))))

    def _alias(self, path: _Path, first: _Path, text: str) -> None:
        self._note(path, "structure", text, Content(_digest(text + first.digest)), "", first)

    def _note(
        self, path: _Path, kind: Kind, text: str, content: Content, more: str = "", alias: _Path | None = None
    ) -> None:
        if more and alias is not None:
            content = content._replace(digest=_digest(content.digest + more + alias.digest))
        if len(self._found) < _MOST_LEAVES:
            self._found.append((path, _kind_of(path, kind), text + more, content, alias))
        elif not path.unsaved and kind != "order":
            rest = self._rest.setdefault(path.top, hashlib.blake2b(digest_size=8))
            rest.update(f"{path.digest}{content.digest}".encode())

    # Names.

    def _written(self, path: _Path, keys: bool = True) -> str:
        steps: list[Any] = []
        at = path
        while at.before is not None and len(steps) < _DEEP:
            steps.append(at.step)
            at = at.before
        steps += [" … ", path.top.step] if at.before is not None else []
        steps.append(self._name)
        text = ""
        for step in reversed(steps):
            text = text + self._key(step, keys) if isinstance(step, Key) else walk.joined(text, step)
        return text

    def _key(self, step: Key, keys: bool) -> str:
        """Return the name that a key has elsewhere: an optimizer keeps its state by parameter."""
        path = self._names.get(id(step.key)) if keys else None
        name = f"{type(step.key).__name__} {step.number}" if path is None else self._written(path, False)
        return f"[{name}]" if step.is_value else f"[{name}]'s key"


def _kind_of(path: _Path, kind: Kind) -> Kind:
    """Return what a leaf is. Of what is inside of a library's object, arrays count: weights, an average."""
    if not path.unsaved or path.unsaved == "internal":
        return path.unsaved or kind
    return "unsaved" if path.unsaved == "unsaved" or kind == "array" else "internal"


def _digest(content: str | bytes) -> str:
    return contents.digest(
        content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    )
