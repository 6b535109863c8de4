"""What docs/server.md shows runs, on a server."""

from __future__ import annotations

from pathlib import Path

import hippotune as hippo
from docs.pages import python
from served.serving import serving
from study.walkers import Walker

(BLOCK,) = python("server")


def test_studies_of_the_page_are_tuned_by_a_server(tmp_path: Path) -> None:
    space = {"lr": [0.1, hippo.MultiStep(0.1, [2], 0.5)], "bs": [4]}
    tuner = hippo.GridSearch(space, "loss", "min", max_steps=4)
    names = {"hippo": hippo, "Digits": Walker, "tuner": tuner}
    with serving(tmp_path) as server:
        exec(BLOCK.replace("http://host:8477", server.url), names)
        here = names["study"].tune(tuner, progress=False)  # type: ignore[attr-defined]
    assert here.work.steps_unique == names["report"].work.steps_unique == 6  # type: ignore[attr-defined]
