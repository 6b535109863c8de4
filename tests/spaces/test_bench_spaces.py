"""Draws of the published studies have what is published: parameters, trials, merge rates; and they run."""

import sys
from pathlib import Path

import pytest

from hippotune.spaces.sharing import merge_rate

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
try:
    from paper import Draw
    from paper_sets import SETS
    from paper_sets import STEPS as SET_STEPS
    from paper_spaces import BERT, MOBILENETV2, RESNET56
finally:
    sys.path.pop(0)


@pytest.mark.parametrize(
    ("study", "names"),
    [
        (RESNET56, {"lr", "bs", "momentum", "weight_decay", "optimizer"}),
        (MOBILENETV2, {"lr", "bs", "cutout", "weight_decay", "optimizer"}),
        (BERT, {"lr", "sequence_length"}),
    ],
    ids=["ResNet56", "MobileNetV2", "BERT-Base"],
)
def test_a_drawn_space_is_a_published_study(study, names):
    space = study.draw(0)
    configs = list(space.configs())
    assert len(configs) == len(set(configs)) == study.trials
    assert {name for config in configs for name in config.names} == names
    assert space.merge_rate(study.steps) == pytest.approx(study.merge_rate, rel=0.01)


def test_a_drawn_space_has_all_functions_that_its_table_names():
    configs = list(MOBILENETV2.draw(1).configs())
    for name, parameter in MOBILENETV2.parameters.items():
        assert set(parameter.published) <= {config[name] for config in configs}


@pytest.mark.parametrize("which", SETS)
def test_studies_of_a_set_have_the_published_rates_alone_and_together(which):
    drawn = SETS[which][0]
    spaces = drawn.draw(1)
    assert [len(space) for space in spaces] == [144] * drawn.studies
    low, high = drawn.own
    assert all(low <= space.merge_rate(SET_STEPS) <= high for space in spaces)
    together = merge_rate([config for space in spaces for config in space.configs()], SET_STEPS)
    assert together == pytest.approx(drawn.together, rel=0.05)


def test_a_draw_is_run_trial_by_trial_shared_and_by_the_rule_of_ray_tune():
    for row in Draw("resnet56_asha", 0).run().values():
        assert row["rate_off"] <= 0.01
        assert row["ratio"] > 1
        assert row["hour_ratio"] > 1
        assert 0.5 < row["ray_to_alone"] < 2  # both let about one trial in four go on
