"""What a script does for its own process alone is refused or warned of, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from forked import Interpreter

ASKS = """
from hippotune.executors.shipping import is_importable
from hippotune.identity.fingerprint import fingerprint
from hippotune.study.unsent import refuse_unsent
try:
    print(refuse_unsent(T.__module__, fingerprint(T), is_importable))
except Exception as error:
    print(type(error).__name__, error)
"""
TRAINER = """
import numpy as np
class T:
    def train(self): self.at = np.ones(3)
"""
PATCH = "import numpy as np\nnp.linalg.factor = 2\n"
REFUSED = "TrainerError workers do not run your script, so they would train without: np.linalg.factor = 2."

CASES = {
    "by the script": (PATCH, {}, REFUSED),
    "by a module of the script": ("import patches", {"patches.py": PATCH}, REFUSED),
    "by a package that holds a module of the script": (
        "import pkg.tools",
        {"pkg/__init__.py": PATCH, "pkg/tools.py": ""},
        REFUSED,
    ),
    "by a value that is read from the environment": (
        "import os, numpy as np\nnp.linalg.factor = os.environ.get('X')",
        {},
        "TrainerError workers do not run your script, so they would train without: np.linalg.factor = os.",
    ),
    "by the package that the trainer is in": (
        "import pkg\nfrom pkg.models import T",
        {"pkg/__init__.py": PATCH, "pkg/models.py": TRAINER},
        "[]",
    ),
    "by a script that the trainer's module imports": (
        f"{PATCH}\nfrom models import T",
        {"models.py": f"{TRAINER}\nimport script\n"},
        "[]",
    ),
    "below the guard": ("if __name__ == '__main__' and 1 != 2:\n    import numpy as np; np.a = 1", {}, "[]"),
    "by a call about results": ("import tools", {"tools.py": "import numpy as np\nnp.save('a', [1])"}, "[]"),
    "by reading what another module would import": (
        "import tools",
        {
            "tools.py": "def show():\n    import window\nif len('a') == 2: show()",
            "window.py": "raise RuntimeError('there is no display')",
        },
        "[]",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_set(tmp_path: Path, forking: Interpreter, case: str) -> None:
    top, files, expected = CASES[case]
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    trainer = "" if "import T" in top else TRAINER
    (tmp_path / "script.py").write_text(f"{top}\n{trainer}\nif __name__ == '__main__':{_indented(ASKS)}")
    done = forking.run("script.py", cwd=tmp_path)
    assert done.stdout.startswith(expected), done.stdout + done.stderr


def _indented(text: str) -> str:
    return text.replace("\n", "\n    ")
