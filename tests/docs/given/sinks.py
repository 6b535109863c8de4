import os
from pathlib import Path

import hippotune as hippo

os.environ["TRACKIO_DIR"] = str(Path("trackio").absolute())


class Digits(hippo.Trainer): ...


study = hippo.Study("digits", Digits, executor=hippo.Simulated(workers=2))
tuner = hippo.GridSearch({"lr": [0.1, hippo.MultiStep(0.1, [3], 0.5)]}, "val_acc", "max", max_steps=4)

# The page.
assert list(Path("runs").rglob("*tfevents*"))
assert Path("mlflow.db").exists()
assert Path("wandb").exists()
assert list(Path("trackio").glob("*.db"))
