"""The user's file: loaded as a module of its own, so that what it defines can be sent to workers.

The module's name is one that no import finds. So workers get the classes of the file as code, and the file
itself, with all that it does, is run once, here. It is not ``__main__``: what a file does only when it is run
by itself (``if __name__ == "__main__": study.tune(tuner)``) is left to the command.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING

from hippotune.errors import HippoError, InvalidInput

if TYPE_CHECKING:
    from hippotune.study.study import Study
    from hippotune.tuners.base import Tuner


class ScriptError(Exception):
    """The user's file raised; the message is its traceback."""


@dataclass(frozen=True, slots=True)
class Script:
    """A file's study and tuner."""

    path: Path
    study: Study
    tuner: Tuner


def load(path: Path) -> Script:
    """Run a file and take what it defines."""
    from hippotune.study.study import Study
    from hippotune.tuners.base import Tuner

    if path.is_dir() or not path.exists():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise InvalidInput(f"{path} {what}; expected a Python file that defines `study` and `tuner`")
    names = vars(_run(path))
    study, tuner = names.get("study"), names.get("tuner")
    missing = [name for name in ("study", "tuner") if name not in names]
    if missing:
        raise InvalidInput(
            f"{path} defines no {' and no '.join(f'`{name}`' for name in missing)}; expected at its top "
            "level: study = hippo.Study(...) and tuner = a tuner, such as hippo.SuccessiveHalving(...)"
        )
    if not isinstance(study, Study):
        raise InvalidInput(f"`study` in {path} is {study!r}; expected a hippo.Study")
    if not isinstance(tuner, Tuner):
        raise InvalidInput(
            f"`tuner` in {path} is {tuner!r}; expected a tuner, such as hippo.SuccessiveHalving(...)"
        )
    return Script(path, study, tuner)


def _run(path: Path) -> ModuleType:
    import cloudpickle

    file = os.path.abspath(path)
    name = "hippo_file_" + re.sub(r"\W", "_", path.stem)
    loader = SourceFileLoader(name, file)
    spec = spec_from_loader(name, loader)
    assert spec is not None
    module = sys.modules[name] = module_from_spec(spec)
    cloudpickle.register_pickle_by_value(module)  # functions in configs too, wherever the trainer is from
    sys.path.insert(0, os.path.dirname(file))  # as for any script: what lies beside it can be imported
    arguments, sys.argv = sys.argv, [file]  # hippo's own are none of its business
    try:
        # Without `loader.exec_module`, which would leave compiled code beside the file.
        exec(loader.source_to_code(loader.get_data(file), file), vars(module))
    except HippoError as error:
        place = _from_file(error.__traceback__, file)
        where = f"{path}, line {place.tb_lineno}" if place else str(path)
        raise InvalidInput(f"{where}: {error}") from error
    except Exception as error:
        shown = traceback.TracebackException(type(error), error, _from_file(error.__traceback__, file))
        raise ScriptError("".join(shown.format()).rstrip()) from error
    finally:
        sys.argv = arguments
    return module


def _from_file(trace: TracebackType | None, file: str) -> TracebackType | None:
    """Return a traceback from the file's first frame on; None where there is none, as in a syntax error."""
    while trace is not None and trace.tb_frame.f_code.co_filename != file:
        trace = trace.tb_next
    return trace
