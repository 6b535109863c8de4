# ruff: noqa: E501
"""Ways by which training code reaches a definition or a value: small modules, and an edit of what is reached.

As a program it prints what is found of all of them, each in a process of its own: ``python -m identity.reaching``;
with ``plain``, of each only as it is, before any edit.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import tempfile
from pathlib import Path

from hippotune.errors import TrainerError
from hippotune.identity.fingerprint import fingerprint

Files = dict[str, str]
Case = tuple[Files, str, str]

HEAD = """
import contextlib, dataclasses, enum, functools, os, sys
from dataclasses import dataclass, field
import numpy as np
import torch
import hippotune as hippo
"""


def trainer(body: str, members: str = "") -> str:
    inner = "\n        ".join(body.splitlines())
    more = "".join(f"    {line}\n" for line in members.splitlines())
    return (
        f"class T(hippo.Trainer):\n    def build(self):\n        {inner}\n"
        "    def setup(self, hp): self.lr = hp['lr']\n    def train(self): pass\n"
        f"    def evaluate(self): return {{'m': 1.0}}\n{more}"
    )


def script(before: str, body: str = "self.m = f", members: str = "", **others: str) -> Files:
    modules = {f"{name.replace('__', '/', 1)}.py": text for name, text in others.items()}
    return {"script.py": f"{HEAD}{before}\n{trainer(body, members)}", **modules}


ONE, TWO = "return 1", "return 2"
DEF = "def f(k=0): return 1\n"

BRANCHES = "if self.settings:\n    from cnn import make\nelse:\n    from mlp import make\nself.m = make()"
MLP = "def make(): return 0\n"
SCALES = "def a():\n    from cfg_a import SCALE\n    return SCALE\ndef b():\n    from cfg_b import SCALE\n    return SCALE"

CASES: dict[str, Case] = {
    "a function": (script(DEF), ONE, TWO),
    "no_grad": (script(f"@torch.no_grad()\n{DEF}"), ONE, TWO),
    "inference_mode": (script(f"@torch.inference_mode()\n{DEF}"), ONE, TWO),
    "autocast": (script(f"@torch.autocast('cpu')\n{DEF}"), ONE, TWO),
    "lru_cache": (script(f"@functools.lru_cache\n{DEF}"), ONE, TWO),
    "cache": (script(f"@functools.cache\n{DEF}"), ONE, TWO),
    "contextmanager": (script(f"@contextlib.contextmanager\n{DEF}".replace("return", "yield")), "yield 1", "yield 2"),
    "a ContextDecorator": (
        script(f"class Ctx(contextlib.ContextDecorator):\n    def __enter__(self): pass\n"
               f"    def __exit__(self, *a): pass\n@Ctx()\n{DEF}"), ONE, TWO),
    "torch.compile": (script(f"@torch.compile\n{DEF}"), ONE, TWO),
    "np.vectorize": (script(f"@np.vectorize\n{DEF}"), ONE, TWO),
    "a partial of its name": (script(f"{DEF}f = functools.partial(f, 3)\n"), ONE, TWO),
    "arguments of a partial of its name": (script(f"{DEF}f = functools.partial(f, 3)\n"), "3)", "4)"),
    "a decorator that is an object": (
        script(f"class Deco:\n    def __init__(self, f): self.f = f\n"
               f"    def __call__(self): return self.f()\n@Deco\n{DEF}"), ONE, TWO),
    "no_grad in a module": (
        script("import helpers", "self.m = helpers.f", helpers=f"import torch\n@torch.no_grad()\n{DEF}"), ONE, TWO),
    "cached_property on the trainer": (
        script("", "self.m = self.f", f"@functools.cached_property\ndef f(self): {ONE}"), ONE, TWO),
    "lru_cache on the trainer": (script("", "self.m = self.f()", f"@functools.lru_cache\ndef f(self): {ONE}"), ONE, TWO),
    "cached_property on a class": (
        script(f"class f:\n    @functools.cached_property\n    def g(self): {ONE}"), ONE, TWO),
    "lru_cache on a class": (script(f"class f:\n    @functools.lru_cache\n    def g(self): {ONE}"), ONE, TWO),
    "a value that took the name of a function": (script(f"{DEF}g = f\nf = (g, 1)"), "(g, 1)", "(g, 2)"),
    "the first of two imports of a name": (script("", BRANCHES, cnn="def make(): return 1\n", mlp=MLP), ONE, TWO),
    "the second of two imports of a name": (script("", BRANCHES, cnn="def make(): return 1\n", mlp=MLP), "return 0", TWO),
    "an import with a fallback": (
        script("", "try:\n    from fast import make\nexcept ImportError:\n    from slow import make\nself.m = make()",
               fast="def make(): return 1\n", slow="def make(): return 0\n"), ONE, TWO),
    "two functions that import a value of one name": (script(SCALES, "self.m = a(), b()", cfg_a="SCALE = 1\n", cfg_b="SCALE = 10\n"), "= 10", "= 20"),
    "a global and an import of one name": (
        script("SCALE = 3\ndef a(): return SCALE\ndef b():\n    from cfg_b import SCALE\n    return SCALE", "self.m = a(), b()",
               cfg_b="SCALE = 10\n"), "= 10", "= 20"),
    "a function's import of a submodule": (script("", "import pkg.models\nself.m = pkg.models.f()", pkg____init____="", pkg__models=DEF), ONE, TWO),
    "a function's import of a submodule by another name": (script("", "import pkg.models as m\nself.m = m.f()", pkg____init____="", pkg__models=DEF), ONE, TWO),
    "a function's import from a package": (script("", "from pkg import models\nself.m = models.f()", pkg____init____="", pkg__models=DEF), ONE, TWO),
    "two variables of imported names": (
        script("", "if self.settings:\n    from one import NAME\nelse:\n    from two import NAME\nself.m = os.environ.get(NAME)",
               one="NAME = 'A'\n", two="NAME = 'B'\n"), "NAME = 'A'", "NAME = 'C'"),
    "a setting at the top of the module": (script("torch.set_default_dtype(torch.float64)", "pass"), "float64", "float32"),
    "a setting of an imported module": (script("import helpers", "self.m = helpers.f()", helpers=f"import torch\ntorch.set_default_dtype(torch.float64)\n{DEF}"), "float64", "float32"),
    "a setting of a module that an imported one imports": (
        script("import helpers", "self.m = helpers.f()", helpers=f"import settled\n{DEF}",
               settled="import torch\ntorch.set_default_dtype(torch.float64)\n"), "float64", "float32"),
    "a setting of a module that is imported for it alone": (script("import settled", "pass", settled="import torch\ntorch.backends.mkldnn.enabled = False\n"), "False", "True"),
    "a setting under a condition": (script("FLAG = 1\nif FLAG > 3:\n    torch.set_default_dtype(torch.float64)", "pass"), "FLAG > 3", "FLAG > 4"),
    "a value that a setting is given": (script("K = 'high'\ntorch.set_float32_matmul_precision(K)", "pass"), "'high'", "'medium'"),
    "a method of a library that is replaced": (
        script("torch.nn.Linear.reset_parameters = lambda self: torch.nn.init.zeros_(self.weight)", "self.w = torch.nn.Linear(2, 2)"), "zeros_", "ones_"),
    "a function that replaces a method of a library": (
        script("def init(self): torch.nn.init.zeros_(self.weight)\ntorch.nn.Linear.reset_parameters = init", "self.w = torch.nn.Linear(2, 2)"), "zeros_", "ones_"),
    "setattr on a class of a library": (script("setattr(torch.nn.Linear, 'factor', 1)", "pass"), "1)", "2)"),
    "an operator that a library finds": (
        script("@torch.library.custom_op('my::op', mutates_args=())\ndef op(x: torch.Tensor) -> torch.Tensor: return x * 1", "self.w = torch.ops.my.op(torch.ones(1))"), "x * 1", "x * 2"),
    "a hook of all modules": (script("torch.nn.modules.module.register_module_forward_hook(lambda m, i, o: o * 1)", "pass"), "o * 1", "o * 2"),
    "a hook that is kept": (script("handle = torch.nn.modules.module.register_module_forward_hook(lambda m, i, o: o * 1)", "pass"), "o * 1", "o * 2"),
    "a variable that is set": (script("os.environ['FLAG'] = '1'", "pass"), "'1'", "'2'"),
    "a function that an imported module calls": (
        script("import helpers", "self.m = helpers.f()", helpers=f"import torch\ndef configure(): torch.set_default_dtype(torch.float64)\nconfigure()\n{DEF}"), "float64", "float32"),
    "a default of a dataclass with slots": (script("LR = 0.1\n@dataclass(slots=True)\nclass f:\n    lr: float = LR"), "LR = 0.1", "LR = 0.2"),
    "a default of a dataclass": (script("LR = 0.1\n@dataclass\nclass f:\n    lr: float = field(default=LR, repr=False)"), "LR = 0.1", "LR = 0.2"),
    "a default of make_dataclass": (script("LR = 0.1\nf = dataclasses.make_dataclass('C', [('lr', float, LR)])"), "LR = 0.1", "LR = 0.2"),
    "a default of a pydantic model": (script("import pydantic\nLR = 0.1\nclass f(pydantic.BaseModel):\n    lr: float = LR"), "LR = 0.1", "LR = 0.2"),
    "an argument of a decorator": (script("AMP = True", "pass", "@torch.autocast('cpu', enabled=AMP)\ndef fwd(self): pass"), "AMP = True", "AMP = False"),
    "a single dispatch": (
        script("@functools.singledispatch\ndef f(x): return 0\n@f.register\ndef _(x: torch.Tensor): return x * 1"), "x * 1", "x * 2"),
    "a metaclass": (script("class Meta(type):\n    def __call__(cls): return 1\nclass f(metaclass=Meta): pass"), ONE, TWO),
    "a global between underscores": (script("__SCALE__ = 1", "self.m = __SCALE__"), "= 1", "= 2"),
    "an attribute between underscores": (script("", "self.m = self.__width__", "__width__ = 64"), "= 64", "= 65"),
    "a number in a library's closure": (script("f = torch.optim.swa_utils.get_ema_multi_avg_fn(0.999)"), "0.999", "0.9"),
    "a number beside what a library wraps": (script("def g(x): return x\nf = torch.vmap(g, in_dims=0)"), "in_dims=0", "in_dims=1"),
    "a submodule that is found by its name": (
        script("import pkg, pkg.models", "self.m = getattr(pkg, self.settings['k']).f()", pkg____init____="", pkg__models=DEF), ONE, TWO),
    "a variable in a text": (
        script("os.environ['FOO'] = open(os.path.join(os.path.dirname(__file__), 'foo')).read()", "self.m = os.path.expandvars('a/$FOO')") | {"foo": "one"}, "one", "two"),
    "under match": (script("match os.sep:\n    case '/': torch.set_default_dtype(torch.float64)", "pass"), "float64", "float32"),
    "what match looks at": (script("match 'a':\n    case 'a': torch.set_default_dtype(torch.float64)", "pass"), "match 'a'", "match 'b'"),
    "where a module is imported": (script("if __name__ != '__main__':\n    torch.set_default_dtype(torch.float64)", "pass"), "float64", "float32"),
    "an option of a library": (script("import pandas as pd\npd.set_option('mode.copy_on_write', True)", "pass"), "True", "False"),
    "which case of match": (script("match 'a':\n    case 'a': torch.set_default_dtype(torch.float64)", "pass"), "case 'a'", "case 'b'"),
    "a guard of match": (script("match 'a':\n    case _ if True: torch.set_default_dtype(torch.float64)", "pass"), "True", "False"),
    "if or else": (script("if os.sep == '/':\n    pass; torch.set_default_dtype(torch.float64)", "pass"), "pass;", "pass\nelse:\n    "),
    "what is caught": (script("try:\n    int('a')\nexcept ValueError:\n    torch.set_default_dtype(torch.float64)", "pass"), "except ValueError", "except (ValueError, KeyError)"),
    "a guard with a condition": (script("if __name__ != '__main__' and len('a') == 1:\n    torch.set_default_dtype(torch.float64)", "pass"), "float64", "float32"),
    "in a comprehension": (script("[setattr(np.linalg, 'factor', i) for i in [2]]", "pass"), "[2]", "[3]"),
    "in a class body": (script("class A:\n    np.linalg.factor = 2", "pass"), "= 2", "= 3"),
    "exec": (script("exec('np.linalg.factor = 2')", "pass"), "= 2", "= 3"),
    "the package around a module": (script("from pkg.models import f", pkg____init__="import numpy as np\nnp.linalg.factor = 2", pkg__models=DEF), "= 2", "= 3"),
    "options of pandas as attributes": (script("import pandas as pd\npd.options.mode.copy_on_write = True", "pass"), "True", "False"),
    "the second of two options": (script("import pandas as pd\npd.set_option('display.max_rows', 3, 'mode.copy_on_write', True)", "pass"), "True", "False"),
    "read by a function that is refused": (script("def f():\n    return g() + len(list(it))\ndef g():\n    return f, 1\nit = [1]", "self.m = g"), "f, 1", "f, 2"),
}  # fmt: skip

HARMLESS: dict[str, Case] = {
    "a print": (script("print('a')", "pass"), "'a'", "'b'"),
    "random seeds": (script("torch.manual_seed(1); np.random.seed(1)", "pass"), "seed(1)", "seed(2)"),
    "threads": (script("torch.set_num_threads(1)", "pass"), "(1)", "(2)"),
    "logging": (script("import logging\nlogging.basicConfig(level=1)", "pass"), "=1", "=2"),
    "warnings": (script("import warnings\nwarnings.filterwarnings('ignore')", "pass"), "ignore", "once"),
    "arguments": (script("import argparse\np = argparse.ArgumentParser()\np.add_argument('--a')", "pass"), "--a", "--b"),
    "an option of what is shown": (script("import pandas as pd\npd.set_option('display.max_rows', 10)", "pass"), "10", "20"),
    "options of what is shown": (script("import pandas as pd\npd.options.display.max_rows = 10; pd.set_option('plotting.matplotlib.register_converters', 'auto')", "pass"), "10", "20"),
    "below a guard with more": (script("if __name__ == '__main__' and len('a') != 7:\n    torch.set_default_dtype(torch.float64)", "pass"), "float64", "float32"),
    "a part of Python that is loaded or not": (script("import json", "from wave import Wave_read\nself.m = Wave_read"), "import json", "import json, wave"),
    "folders": (script("os.makedirs('/tmp', exist_ok=True)", "pass"), "'/tmp'", "'/'"),
    "a tuning": (script("hippo.Grid({'lr': [1]})", "pass"), "[1]", "[2]"),
    "below the guard": (script("if __name__ == '__main__':\n    torch.set_default_dtype(torch.float64)", "pass"), "float64", "float32"),
    "devices": (script("os.environ['CUDA_VISIBLE_DEVICES'] = '1'", "pass"), "'1'", "'2'"),
}  # fmt: skip


def look(files: Files) -> str:
    """Return the digest of the trainer's fingerprint, in a process of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            folder = Path(tempfile.mkdtemp())
            for name, text in files.items():
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_text(text)
            sys.path.insert(0, str(folder))
            sys.dont_write_bytecode = True
            importlib.invalidate_caches()
            found = fingerprint(importlib.import_module("script").T).digest
        except TrainerError as error:
            found = f"refused: {error}"
        except BaseException as error:
            found = f"failed: {error!r}"
        os.write(writer, found.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        found = pipe.read()
    os.waitpid(child, 0)
    return found


def edited(files: Files, old: str, new: str) -> Files:
    after = {name: text.replace(old, new) for name, text in files.items()}
    assert after != files, old
    return after


def main() -> None:
    """Print what is found of every case: as it is, with comments, and edited."""
    gc.disable()
    import pandas  # noqa: F401  # once, for all children
    import pydantic.dataclasses  # noqa: F401
    import torch._dynamo  # noqa: F401

    import hippotune.trainers.base  # noqa: F401

    gc.freeze()
    gc.enable()
    found = {}
    for name, (files, old, new) in (CASES | HARMLESS).items():
        if "plain" in sys.argv:
            found[name] = [look(files)]
            continue
        commented = {
            file: f"# a comment\n\n{text}\n# another" if file.endswith(".py") else text
            for file, text in files.items()
        }
        found[name] = [look(files), look(commented), look(edited(files, old, new))]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
