"""The spaces of the published studies have the published numbers of trials, and merge rates within 5 %."""

import runpy
from pathlib import Path

import pytest

from hippotune import Study
from hippotune.spaces.sharing import merge_rate
from hippotune.tuners import Tuner

FOLDER = Path(__file__).parents[2] / "bench" / "spaces"


@pytest.fixture(autouse=True)
def beside_the_files(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))


@pytest.mark.parametrize(
    ("file", "trials", "rate", "steps"),
    [
        ("resnet56_sha", 448, 2.447, 120),
        ("resnet56_asha", 448, 2.447, 120),
        ("mobilenetv2_grid", 240, 3.144, 120),
        ("bert_grid", 40, 2.045, 27_000),
    ],
)
def test_a_published_study_is_of_its_size_and_merge_rate(file, trials, rate, steps):
    names = runpy.run_path(str(FOLDER / f"{file}.py"))
    study, tuner = names["study"], names["tuner"]
    assert isinstance(study, Study)
    assert isinstance(tuner, Tuner)
    assert tuner.max_steps == steps
    assert len(tuner.configs()) == len(set(tuner.configs())) == trials
    assert tuner.space.merge_rate(steps) == pytest.approx(rate, rel=0.05)


@pytest.mark.parametrize(
    ("which", "rates"), [("HIGH", [2.92, 4.83, 7.55, 9.47]), ("LOW", [2.34, 2.76, 3.14, 3.53])]
)
def test_studies_of_one_model_share_the_more_the_more_there_are(which, rates):
    spaces = runpy.run_path(str(FOLDER / "multi_study.py"))[which]
    assert [len(space) for space in spaces] == [144] * 8
    together = [
        merge_rate([config for space in spaces[:count] for config in space], 120) for count in (1, 2, 4, 8)
    ]
    assert [round(rate, 2) for rate in together] == rates
