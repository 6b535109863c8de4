import hippotune as hippo
import hippotune.study.opening

hippotune.study.opening.ProofPolicy = lambda *_: None  # what is proved is tested elsewhere


class Walker(hippo.Trainer):
    def build(self):
        self.place = 0.0

    def setup(self, hp):
        self.lr = hp["lr"]

    def train(self):
        self.place += self.lr

    def evaluate(self):
        return {"val_acc": self.place}


space = {"lr": [0.1, 0.2, hippo.MultiStep(0.2, [40], 0.1)]}
study = hippo.Study("walk", Walker, executor=hippo.Local(workers=1))
tuner = hippo.GridSearch(space, "val_acc", "max", max_steps=60)

# The page.
assert report.ended_by is None
assert report.best.metrics == {"val_acc": report.best.load().place}
