"""The commands that look at stores and clean them: on studies that were really trained."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hippotune.cli.main import main
from hippotune.cli.trial import sparkline
from hippotune.history.studies import find_study
from hippotune.identity.key import PlanKey
from hippotune.plan.facts import Position
from hippotune.plan.plan import Plan
from hippotune.store.catalog import open_store
from hippotune.store.files import checkpoint_folder
from hippotune.study.report import Report
from stored import DECAYS, Asking, study, trained

HEAVY = [{"lr": 0.5, "weight": weight, "scale": 1.0} for weight in (1, 10, 20)]
Run = Callable[..., str]


@pytest.fixture(scope="module")
def trained_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with studies: one plan that two of them share, one that is superseded, one that is apart."""
    home = tmp_path_factory.mktemp("trained") / "home"
    trained("decays", home, Asking(DECAYS[:1], 2), version="0")
    trained("decays", home, Asking(DECAYS, 2, 6, 8))
    trained("heavy", home, Asking(HEAVY, 5))
    trained("alone", home, Asking(DECAYS, 3), share=False)
    return home


@pytest.fixture
def home(trained_home: Path, tmp_path: Path) -> Path:
    """A copy of that home, to do with as one likes."""
    return Path(shutil.copytree(trained_home, tmp_path / "home"))


@pytest.fixture
def run(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command on the home; return what it prints."""

    def run(*arguments: str, status: int = 0) -> str:
        assert main([*arguments, "--home", str(home)]) == status
        captured = capsys.readouterr()
        return captured.err if status else captured.out

    return run


def key_of(home: Path, name: str) -> PlanKey:
    with open_store(home, create=False) as catalog:
        return find_study(catalog, name).key


def figures(output: str) -> dict[str, tuple[int, str]]:
    """Read the figures of `hippo show`, with the remarks behind them."""
    found = re.findall(r"^  ([a-z][a-z ]+?)  +([\d,]+)(?:   (.*))?$", output, re.MULTILINE)
    return {name: (int(number.replace(",", "")), remark) for name, number, remark in found}


# hippo ls


def test_ls_lists_studies_the_last_used_first(run: Run) -> None:
    head, *lines, gap, unused = run("ls").splitlines()
    assert head.split() == ["study", "trainer", "trials", "results", "checkpoints", "last", "used", "best"]
    cells = [re.split(r"  +", line) for line in lines]
    assert [row[:4] for row in cells] == [
        ["alone (share=False)", "Falling", "4", "4"],
        ["heavy", "Falling", "3", "6"],
        ["decays", "Falling", "4", "6"],
    ]
    assert all(re.fullmatch(r"[\d.]+ k?B", row[4]) for row in cells)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", row[5]) for row in cells)
    assert gap == ""
    assert re.match(r"and 1 plan that no study uses any more, with [\d.]+ k?B of checkpoints: ", unused)


def test_ls_tells_the_best_where_it_is_known_what_a_study_is_tuned_for(run: Run, home: Path) -> None:
    with open_store(home) as catalog:
        catalog.aim("decays", find_study(catalog, "decays").key, "height", "min")
    lines = run("ls").splitlines()
    assert next(line for line in lines if line.startswith("decays")).endswith("  height 0.015625")


def test_where_there_is_no_store_that_is_said_and_none_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["ls"], ["show", "decays"], ["export", "decays"], ["gc"]):
        assert main([*command, "--home", str(tmp_path / "none")]) == 2
        assert "hippo: there is no store in" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


# hippo show


def test_show_tells_the_work_the_trials_and_the_tree(run: Run, home: Path) -> None:
    output = run("show", "decays")
    told = figures(output)
    assert told["trials"] == (4, "4 done")
    assert told["steps requested"] == (8 + 6 + 2 + 2, "")
    assert told["unique steps"] == (14, "merge rate 1.29")
    assert told["steps trained"][0] == 14
    assert re.fullmatch(r"in \d+\.\d worker-seconds", told["steps trained"][1])
    assert told["checkpoints"][0] > 0
    lines = output.splitlines()
    assert lines[0] == "study decays"
    key = key_of(home, "decays")
    assert lines[1].startswith(f"  trainer Falling, plan {key.digest}, last used 2")
    assert lines[2] == "  on the same plan: heavy"
    assert re.fullmatch(r"  another plan of it: --plan [0-9a-f]{16}; changed from it .*", lines[3])
    table = [line.split(maxsplit=7) for line in lines if re.match(r" +\d+ +\d+ +\d+ +\d+", line)]
    assert sorted(row[:4] for row in table) == [
        ["0", "8", "8", "8"],
        ["1", "6", "6", "6"],
        ["2", "2", "2", "2"],
        ["3", "2", "2", "2"],
    ]
    assert "best" in output
    drawn = lines[-lines[::-1].index("") :]
    assert [line.split("  ")[0] for line in drawn[1:]] == ["scale 0.5", "goes on", "scale 1", "goes on"]


def test_show_ranks_by_a_metric(run: Run) -> None:
    lines = run("show", "decays", "--metric", "fallen", "--mode", "max", "--no-tree").splitlines()
    at = lines.index("best by fallen (max)")
    assert lines[at + 1 : at + 4] == [
        "  trial 1 at step 6: height 0.015625, fallen 0.98438",
        "  lr = 0.5",
        "  scale = 1",
    ]
    numbers = [line.split()[0] for line in lines if re.match(r" +\d+ +\d+ +\d+ +\d+", line)]
    assert numbers == ["1", "0", "3", "2"]


def test_show_ranks_by_what_the_study_was_tuned_for(run: Run, home: Path) -> None:
    with open_store(home) as catalog:
        catalog.aim("decays", find_study(catalog, "decays").key, "height", "min")
    assert "best by height (min)\n  trial 1 at step 6" in run("show", "decays")


def test_show_tells_failures_by_the_last_line_of_their_errors(run: Run) -> None:
    output = run("show", "heavy", "--no-tree")
    assert figures(output)["trials"] == (3, "1 done, 2 failed")
    assert output.endswith(
        "failed\n"
        "  trial 1: ValueError: a weight of 10 is too much\n"
        "  trial 2: ValueError: a weight of 20 is too much\n"
    )
    assert "all of these: lr 0.5 · scale 1" in output
    assert "Traceback" not in output


def test_show_shows_so_many_trials_and_counts_the_rest(run: Run) -> None:
    lines = run("show", "decays", "--trials", "1", "--no-tree").splitlines()
    assert [line.split()[0] for line in lines if re.match(r" +\d+ +\d+ +\d+ +\d+", line)] == ["1"]  # the best
    assert "… and 3 more: see --trials" in lines


def test_show_of_a_trial_tells_its_config_its_metrics_and_what_it_logged(run: Run) -> None:
    lines = run("show", "decays", "--trial", "0").splitlines()
    assert lines[:3] == ["trial 0, done: trained 8 of 8 steps", "  lr = 0.5", "  scale = 0.5"]
    assert [line.split() for line in lines[4:8]] == [
        ["step", "height", "fallen"],
        ["2", "0.5625", "0.4375"],
        ["6", "0.17798", "0.82202"],
        ["8", "0.10011", "0.89989"],
    ]
    assert [line.split() for line in lines[9:]] == [
        ["logged", "steps", "last", "min", "max"],
        ["height", "8", "0.10011", "0.10011", "0.75", "█▆▄▃▂▁▁▁"],
        ["bounce", "2", "0.5", "0.5", "0.5", "▁▁"],
    ]


def test_show_of_a_trial_that_failed_tells_its_error(run: Run) -> None:
    lines = run("show", "heavy", "--trial", "1").splitlines()
    assert lines[0] == "trial 1, failed: trained 2 of 5 steps"
    assert lines[-1] == "ValueError: a weight of 10 is too much"
    assert any(line.split()[:2] == ["height", "2"] for line in lines), "what came before it is shown"


def test_retry_clears_what_one_trial_or_all_of_them_failed_with(run: Run, home: Path) -> None:
    assert "1 trial of study heavy: tried again" in run("retry", "heavy", "--trial", "1")
    assert figures(run("show", "heavy"))["trials"] == (3, "1 done, 1 unfinished, 1 failed")
    assert "1 trial of study heavy: tried again" in run("retry", "heavy")
    assert figures(run("show", "heavy"))["trials"] == (3, "1 done, 2 unfinished")
    assert "nothing in study heavy has failed" in run("retry", "heavy")
    report = trained("heavy", home, Asking(HEAVY, 5))
    assert [trial.number for trial in report.failed] == [1, 2], "they were trained again"
    assert report.work.steps_trained > 0


def suspended(home: Path, name: str) -> None:
    """Have the trial of a study suspended that failed first."""
    with open_store(home) as catalog, closing(catalog.plan(find_study(catalog, name).key)) as store:
        plan = Plan.replay(store.read())
        at = next(Position(node.id, node.failure.step) for node in plan.nodes if node.failure is not None)
        cleared = plan.clear(at)
        store.write([cleared, plan.fail(cleared.position, "the worker was lost\nmore of it", suspended=True)])


def test_what_is_suspended_is_told_apart_from_what_failed_until_it_is_retried(run: Run, home: Path) -> None:
    suspended(home, "heavy")
    output = run("show", "heavy", "--no-tree")
    assert figures(output)["trials"] == (3, "1 done, 1 failed, 1 suspended")
    assert "suspended\n  trial 1: the worker was lost\n  to try these again: hippo retry heavy" in output
    with pytest.warns(RuntimeWarning, match=r"1 trial suspended \(1\), not failed"):
        report = trained("heavy", home, Asking(HEAVY, 5))
    assert [trial.number for trial in report.suspended] == [1]
    assert [trial.number for trial in report.failed] == [2]
    assert "3 trials, 1 failed, 1 suspended" in str(report)
    assert report.work.steps_trained == 0
    run("retry", "heavy")
    assert trained("heavy", home, Asking(HEAVY, 5)).suspended == []


def test_a_study_that_is_being_trained_is_not_retried(run: Run, home: Path) -> None:
    with study("heavy", home):
        assert "is in use" in run("retry", "heavy", status=2)


def test_show_of_a_trial_that_is_not_there_says_which_are(run: Run) -> None:
    told = run("show", "decays", "--trial", "9", status=2)
    assert "no trial 9; its trials are numbered from 0 to 3" in told


def test_a_sparkline_shows_what_is_no_number_as_a_dot() -> None:
    assert sparkline([0.0, 1.0, float("nan"), float("inf"), 2.0]) == "▁▅··█"
    assert sparkline([float("nan")]) == "·"
    assert sparkline([-1.7e308, 1.7e308]) == "▁█"
    assert len(sparkline([float(n) for n in range(1000)])) == 40


def test_show_finds_what_a_study_had_before_its_code_changed(run: Run) -> None:
    found = re.search(r"--plan ([0-9a-f]{16})", run("show", "decays"))
    assert found is not None
    assert figures(run("show", "decays", "--plan", found[1]))["trials"] == (1, "1 done")


def test_show_of_trials_that_do_not_share_has_a_merge_rate_of_one(run: Run) -> None:
    assert figures(run("show", "alone (share=False)"))["unique steps"] == (12, "merge rate 1.00")


FILE = """
import hippotune as hippo
from stored import Asking, study as stored

def halved(step):
    return 0.5 if step < 2 else 0.25

study = stored("halved", {home!r})
tuner = Asking([{{"lr": 0.5}}, {{"lr": hippo.Function(halved)}}], 4)
"""


def test_a_study_is_named_by_its_file_too_which_knows_the_functions_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = tmp_path / "halved.py"
    file.write_text(FILE.format(home=str(tmp_path / "elsewhere")))
    assert main(["run", str(file), "--no-progress"]) == 0
    monkeypatch.delitem(sys.modules, "hippo_file_halved")

    home = ["--home", str(tmp_path / "elsewhere")]
    assert main(["show", "halved", *home]) == 2
    told = capsys.readouterr().err
    assert "the stored function hippo_file_halved:halved cannot be imported" in told
    assert told.endswith("; name the file that defines the study in place of 'halved'\n")
    assert main(["ls", *home]) == 0
    assert main(["show", str(file)]) == 0
    shown = capsys.readouterr().out
    assert figures(shown)["trials"] == (2, "2 done"), "the function has reached the worker"
    assert figures(shown)["unique steps"] == (6, "merge rate 1.33")
    assert "lr Function(halved)" in shown
    monkeypatch.delitem(sys.modules, "hippo_file_halved")


def test_an_unknown_study_metric_or_plan_is_named_with_those_that_are_there(run: Run) -> None:
    assert "its studies are: alone (share=False), heavy, decays" in run("show", "missing", status=2)
    assert "metric is 'depth'; expected one of fallen, height" in run(
        "show", "heavy", "--metric", "depth", "--mode", "max", status=2
    )
    assert "mode is None for the metric 'fallen'" in run("show", "heavy", "--metric", "fallen", status=2)
    assert "no plan that begins with 'xyz'" in run("show", "heavy", "--plan", "xyz", status=2)


# hippo export


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_export_has_a_row_for_every_trial_and_step_measured(run: Run) -> None:
    output = run("export", "decays")
    assert output.splitlines()[0] == "study,trial,step,config.lr,config.scale,height,fallen,error"
    rows = rows_of(output)
    assert [(row["trial"], row["step"]) for row in rows] == [
        *[("0", "2"), ("0", "6"), ("0", "8")],
        *[("1", "2"), ("1", "6")],
        *[("2", "2"), ("3", "2")],
    ]
    assert {row["study"] for row in rows} == {"decays"}
    assert [row["config.lr"] for row in rows[-3:]] == ["0.5", "MultiStep(0.5, [4])", "MultiStep(0.5, [4])"]
    assert float(rows[2]["height"]) == 0.75**8


def test_export_tells_why_a_trial_failed(run: Run) -> None:
    failed = [row for row in rows_of(run("export", "heavy")) if row["error"]]
    assert [(row["trial"], row["step"], row["height"]) for row in failed] == [("1", "5", ""), ("2", "5", "")]
    assert failed[0]["error"].startswith("Traceback")
    assert failed[0]["error"].endswith("ValueError: a weight of 10 is too much")


def test_all_formats_hold_the_same(run: Run, tmp_path: Path) -> None:
    import pandas

    for name in ("decays", "heavy"):
        files = {ending: tmp_path / f"{name}.{ending}" for ending in ("csv", "json", "parquet")}
        for file in files.values():
            assert run("export", name, "-o", str(file)) == ""
        text = run("export", name)
        assert files["csv"].read_text() == text
        assert files["json"].read_text() == run("export", name, "--format", "json")
        written = json.loads(files["json"].read_text())
        assert [{key: "" if cell is None else str(cell) for key, cell in row.items()} for row in written] == (
            rows_of(text)
        )
        frame = pandas.read_parquet(files["parquet"])
        assert list(frame.columns) == list(written[0])
        for row, expected in zip(frame.to_dict("records"), written, strict=True):
            for column, cell in row.items():
                there = expected[column]  # what is not of one kind in all rows is text in Parquet
                assert pandas.isna(cell) if there is None else cell in (there, str(there))


def test_hyper_parameters_may_have_any_name_and_odd_numbers_are_null_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = Asking([{"lr": 1e200, "scale": 1e200, "height": 1, "step": 5}], 1)
    trained("odd", tmp_path, odd)
    assert main(["export", "odd", "--format", "json", "--home", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {
            "study": "odd",
            "trial": 0,
            "step": 1,
            "config.height": 1,
            "config.lr": 1e200,
            "config.scale": 1e200,
            "config.step": 5,
            "height": None,
            "fallen": None,
            "error": None,
        }
    ]


def test_export_says_what_is_missing(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "expected an ending among .csv, .json, .parquet" in run(
        "export", "heavy", "-o", str(tmp_path / "x.txt"), status=2
    )
    assert "name a file with -o" in run("export", "heavy", "--format", "parquet", status=2)
    assert "cannot write to" in run("export", "heavy", "-o", str(tmp_path / "no" / "x.csv"), status=2)
    for missing in ("pyarrow", "pandas"):
        monkeypatch.setitem(sys.modules, missing, None)
        told = run("export", "heavy", "-o", str(tmp_path / "x.parquet"), status=2)
        assert "writing Parquet needs pandas and pyarrow" in told
        assert "pip install 'hippotune[pandas]'" in told


def test_export_of_what_was_logged_has_a_row_for_every_number_on_a_trials_way(
    run: Run, tmp_path: Path
) -> None:
    import pandas

    output = run("export", "decays", "--logged")
    assert output.splitlines()[0] == "study,trial,step,name,value"
    first = [row for row in rows_of(output) if row["trial"] == "0"]
    heights = [(int(row["step"]), float(row["value"])) for row in first if row["name"] == "height"]
    assert heights == [(step, 0.75**step) for step in range(1, 9)]
    bounces = [(row["step"], row["value"]) for row in first if row["name"] == "bounce"]
    assert bounces == [("3", "0.5"), ("6", "0.5")]
    written = json.loads(run("export", "decays", "--logged", "--format", "json"))
    assert [{name: str(cell) for name, cell in row.items()} for row in written] == rows_of(output)
    file = tmp_path / "logged.parquet"
    run("export", "decays", "--logged", "-o", str(file))
    assert pandas.read_parquet(file).to_dict("records") == written


# hippo gc


def tree(home: Path) -> set[str]:
    """The files below a home, without those that locking and reading leave behind."""
    names = {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}
    return {name for name in names if name.startswith("checkpoints/")}


def strays(home: Path) -> list[Path]:
    """Add what killed processes leave behind."""
    folder = checkpoint_folder(home, key_of(home, "decays"))
    partial = folder / "00" / "node-1-step-2.12ab34cd.partial"
    partial.mkdir(parents=True)
    (partial / "part").write_text("half of it")
    unknown = folder / "01" / "node-77-step-5"
    unknown.write_text("no plan knows me")
    return [partial / "part", unknown]


def test_gc_removes_what_no_plan_knows_and_nothing_else(run: Run, home: Path) -> None:
    run("gc")  # a worker that is ended while it saves leaves something behind, too
    before = tree(home)
    added = strays(home)
    told = f"2 files that the plan {key_of(home, 'decays').digest} of Falling does not know, 26 B\n"
    assert run("gc", "--dry-run") == f"would remove {told}"
    assert all(path.exists() for path in added)
    assert run("gc") == f"removed {told}"
    assert tree(home) == before
    assert run("gc") == "nothing to remove\n"
    again = trained("decays", home, Asking(DECAYS, 2, 6, 8))
    assert again.work.steps_trained == 0


def test_gc_leaves_a_plan_alone_that_is_being_trained_on(run: Run, home: Path) -> None:
    with study("decays", home):
        (stray, _) = strays(home)
        output = run("gc", "--plans", "--yes")
    digest = key_of(home, "decays").digest
    assert f"left alone: the plan {digest} of Falling is in use by this very process" in output
    assert stray.exists()


def test_gc_removes_plans_that_no_study_uses_any_more(run: Run, home: Path) -> None:
    run("gc")
    with open_store(home) as catalog:
        (old,) = catalog.unused()
        others = [info for info in catalog.plans() if info != old]
    folder = checkpoint_folder(home, old.key)
    kept = {name for name in tree(home) if old.key.digest not in name}
    assert folder.is_dir()

    told = run("gc", "--plans", "--dry-run")
    assert re.search(rf"^{old.key.digest}  Falling  decays +1 +[\d.]+ k?B ", told, re.MULTILINE)
    assert f"would remove the plan {old.key.digest}" in told
    assert "use --yes" in run("gc", "--plans", status=2)
    assert folder.is_dir()

    assert f"removed the plan {old.key.digest} of Falling" in run("gc", "--plans", "--yes")
    assert not folder.exists()
    assert tree(home) == kept
    with open_store(home) as catalog:
        assert catalog.plans() == others
        assert catalog.unused() == []
        assert [info.key for info in catalog.studies() if info.name == "decays"] == [key_of(home, "decays")]
    assert run("gc", "--plans") == "nothing to remove\n"
    assert "that no study uses any more" not in run("ls")
    assert len(run("export", "decays").splitlines()) == 1 + 7


@pytest.mark.parametrize("linked", ["a file", "a folder in it", "the folder itself"])
def test_gc_removes_no_plan_through_a_link(run: Run, home: Path, tmp_path: Path, linked: str) -> None:
    with open_store(home) as catalog:
        (old,) = catalog.unused()
    folder = checkpoint_folder(home, old.key)
    elsewhere = tmp_path / "elsewhere"
    if linked == "the folder itself":
        folder.rename(elsewhere)
        folder.symlink_to(elsewhere)
    else:
        elsewhere.mkdir()
        (elsewhere / "mine").write_text("mine")
        link = folder / "link" if linked == "a folder in it" else folder / "00" / "link"
        link.symlink_to(elsewhere if linked == "a folder in it" else elsewhere / "mine")
    before = set(elsewhere.rglob("*"))
    assert before
    told = run("gc", "--plans", "--yes")
    assert set(elsewhere.rglob("*")) == before
    assert not list(home.glob("checkpoints/*.removed"))
    if linked == "the folder itself":
        assert "is a symbolic link, and nothing is removed through links" in told
        assert folder.is_symlink()
    else:
        assert not folder.exists()
        assert run("gc", "--plans") == "nothing to remove\n"


def test_gc_asks_before_it_removes_plans(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    assert "the plans are kept" in run("gc", "--plans")
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert "removed the plan" in run("gc", "--plans")


def test_gc_finishes_what_an_interrupted_one_began(run: Run, home: Path) -> None:
    with open_store(home) as catalog:
        (old,) = catalog.unused()
        catalog.remove(old.key)
    folder = checkpoint_folder(home, old.key)
    half = folder.with_name(f"{folder.name}.0123abcd.removed")
    shutil.copytree(folder, half)
    would, done = run("gc", "--dry-run"), run("gc")
    assert f"would remove {folder}\n" in would
    assert f"removed {folder}\n" in done
    assert f"removed {half}\n" in done
    assert not half.exists()
    assert not folder.exists()


def test_a_plan_that_is_begun_anew_takes_over_what_an_interrupted_gc_left_of_it(run: Run, home: Path) -> None:
    with open_store(home) as catalog:
        (old,) = catalog.unused()
        catalog.remove(old.key)
    report = trained("decays", home, Asking(DECAYS[:1], 2), version="0")
    assert report.work.steps_trained == 2
    assert "left alone" not in run("gc")


def test_gc_leaves_the_checkpoints_of_other_stores_alone(run: Run, home: Path) -> None:
    other = home / "checkpoints" / "0123456789abcdef" / "00" / "node-0-step-1"
    other.parent.mkdir(parents=True)
    other.write_text("mine")
    assert f"left alone: {other.parents[1]} (4 B) belongs to no plan of this store" in run(
        "gc", "--plans", "--yes"
    )
    assert other.read_text() == "mine"


def test_a_removed_plan_begins_anew(run: Run, home: Path) -> None:
    run("gc", "--plans", "--yes")
    report: Report = trained("decays", home, Asking(DECAYS[:1], 2), version="0")
    assert report.work.steps_trained == 2
