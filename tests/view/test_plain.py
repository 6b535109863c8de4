import io

from hippotune.view.plain import PlainView
from view.snapshots import a_snapshot


def written(*shown: object, notes: bool = False) -> list[str]:
    stream = io.StringIO()
    with PlainView(stream) as view:
        for item in shown:
            if isinstance(item, str):
                view.note(item)
            else:
                view.show(item)  # type: ignore[arg-type]
    return stream.getvalue().splitlines()


def test_a_line_says_how_far_the_study_is() -> None:
    assert written(a_snapshot(requests_failed=2)) == [
        "digits, 1 min 23 s: 48 of 448 requests answered, 2 failed; 1,200 of 21,970 steps (merge rate 2.45); "
        "best val_acc 0.9312 (trial 17 at step 60); about 4 min left"
    ]


def test_a_line_says_how_busy_the_workers_were() -> None:
    (line,) = written(a_snapshot(utilisation=0.5))
    assert line.endswith("at step 60); workers 50% busy; about 4 min left")


def test_nothing_is_said_before_anything_is_asked() -> None:
    assert written(a_snapshot(trials=0, requests_open=0, requests_answered=0)) == []


def test_there_is_a_first_line_one_every_ten_seconds_and_a_last_one() -> None:
    seconds = [0.0, 0.2, 9.9, 10.0, 11.0, 19.9, 20.1, 25.0]
    lines = written(*[a_snapshot(seconds=at, steps_trained=int(at * 10)) for at in seconds])
    assert [line.split(":")[0] for line in lines] == [
        "digits, 0 s",
        "digits, 10 s",
        "digits, 20 s",
        "digits, 25 s",
    ]


def test_a_line_is_written_only_where_something_changed() -> None:
    lines = written(*[a_snapshot(seconds=float(at), seconds_left=100.0 - at) for at in range(100)])
    assert len(lines) == 1


def test_no_time_is_left_when_no_request_is_open() -> None:
    (line,) = written(a_snapshot(requests_open=0))
    assert "left" not in line


def test_a_line_says_how_long_limits_last() -> None:
    (line,) = written(a_snapshot(until_deadline=720.0, until_budget=50.0))
    assert line.endswith("about 4 min left; deadline in 12 min; budget for 50 s")


def test_notes_are_lines_of_their_own() -> None:
    lines = written("the training code changed: a new plan begins", a_snapshot(), "worker 1 was replaced")
    assert lines[0] == "the training code changed: a new plan begins"
    assert lines[2] == "worker 1 was replaced"
    assert len(lines) == 3


def test_closing_twice_says_nothing_more() -> None:
    stream = io.StringIO()
    view = PlainView(stream)
    view.show(a_snapshot())
    view.close()
    once = stream.getvalue()
    view.close()
    assert stream.getvalue() == once
