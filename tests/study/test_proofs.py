"""What is not exact is caught by a plain study, with a message that its author can act on."""

from __future__ import annotations

from pathlib import Path

import pytest

import hippotune as hippo
from hippotune import GridSearch, MultiStep
from hippotune.errors import HippoError, NotExact
from study import proved

SPACE = {"lr": [0.1, MultiStep(0.1, [5], 0.5)]}

CAUGHT: dict[type[hippo.Trainer], tuple[str, ...]] = {
    proved.Unseeded: (
        "Unseeded is not deterministic: the same step, trained twice from the same start, differs each time. "
        "After step 1, self.value is ",
        "draws random numbers that are not seeded (np.random.default_rng(), uuid, os.urandom)",
        "Seed it with self.seed",
    ),
    proved.Late: (
        "Late is not exact: a step that was repeated from the checkpoint of a branch after step 5 differs",
        "After step 6, self.value is 1.8",
        "self.buffer.items is a list of 6 items before, and a list of 1 item after",
        "A __getstate__(), __setstate__() or __reduce__() of its class leaves it out",
    ),
    proved.Counting: (
        "training has changed what it reads from outside of self: count: 0 -> 1",
        "Keep it on self, made in build()",
    ),
    proved.Resetting: (
        "evaluate() of Resetting changes the state: after step 2, self.losses is ",
        "evaluate() has to leave everything as it is: let it work on copies",
        "volatile = {'self.losses'}",
    ),
    proved.Boosting: (
        "Boosting is not exact: a trial that is cut after step 1 and goes on in a ",
        "Everything on self was the same at the cut",
        "a library's own random numbers",
    ),
}


@pytest.mark.parametrize("trainer", CAUGHT, ids=lambda trainer: trainer.__name__)
def test_a_trainer_that_is_not_exact_is_caught_by_a_plain_study(
    trainer: type[hippo.Trainer], tmp_path: Path
) -> None:
    with (
        hippo.Study("caught", trainer, home=tmp_path, executor=hippo.Local(workers=1)) as study,
        pytest.raises(HippoError) as raised,
    ):
        study.tune(GridSearch(SPACE, "loss", "min", 8), progress=False)
    assert [part for part in CAUGHT[trainer] if part not in str(raised.value)] == [], str(raised.value)
    if isinstance(raised.value, NotExact):  # a fact of the plan: nothing is trained to find it out again
        with pytest.raises(NotExact) as again:
            hippo.Study("caught", trainer, home=tmp_path).open()
        assert str(again.value) == str(raised.value)
