"""What a plan knows of a study: its tunings, and what people have stopped."""

from __future__ import annotations

from hippotune.plan.facts import StudyBegan, StudyEnded, StudyStopped, TrialStopped


class StudyState:
    """The last tuning of a study, and how it ended: None where it runs, or was killed.

    What is stopped stays so until the study is tuned again: `stopped` is the fact that says so, and
    `stopped_trials` are those trials' numbers.
    """

    __slots__ = ("began", "ended", "stopped", "stopped_trials")

    def __init__(self) -> None:
        self.began: StudyBegan | None = None
        self.ended: StudyEnded | None = None
        self.stopped: StudyStopped | None = None
        self.stopped_trials: set[int] = set()

    @property
    def tunings(self) -> int:
        """How often the study was tuned."""
        return 0 if self.began is None else self.began.tuning

    def take_in(self, fact: StudyBegan | StudyEnded | StudyStopped | TrialStopped) -> None:
        """Note what was done."""
        match fact:
            case StudyBegan():
                self.began, self.ended, self.stopped = fact, None, None
                self.stopped_trials.clear()
            case StudyEnded(tuning=tuning):
                if tuning == self.tunings:
                    self.ended = fact
            case StudyStopped():
                self.stopped = fact
            case TrialStopped(trial=trial):
                self.stopped_trials.add(trial)
