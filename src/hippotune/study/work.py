"""What a tuning asked for, and what it took."""

from __future__ import annotations

from dataclasses import dataclass

from hippotune.short import plural


@dataclass(frozen=True, slots=True)
class Work:
    """What a tuning asked for and what it took.

    Attributes
    ----------
    steps_requested : int
        Requested steps of all trials, with nothing shared.
    steps_unique : int
        The same with every shared step counted once.
    steps_trained : int
        Steps that workers really trained on the plan during this tuning, for other studies too.
    steps_found : int
        Unique steps that were there before, from earlier runs or other studies. It is a lower bound: steps
        trained meanwhile for other studies, or a second time, are subtracted.
    worker_seconds : float
        Time that workers were held by leases: of a whole slot each, however many leases shared it.
    wall_seconds : float
        Time from the start of the tuning to its end.
    proof_steps : int
        Steps that were trained once more, to prove something; not among `steps_trained`.
    proof_seconds : float
        What that took of the workers' time; not among `worker_seconds`.
    proof_startup_seconds : float
        What it took beside that to start fresh interpreters, with all that they import and prepare.
    """

    steps_requested: int
    steps_unique: int
    steps_trained: int
    steps_found: int
    worker_seconds: float
    wall_seconds: float
    workers: int
    proof_steps: int = 0
    proof_seconds: float = 0.0
    proof_startup_seconds: float = 0.0

    @property
    def merge_rate(self) -> float:
        """Steps without sharing for every step with it."""
        return self.steps_requested / self.steps_unique if self.steps_unique else 1.0

    @property
    def steps_saved(self) -> int:
        """Steps that did not have to be trained."""
        return self.steps_requested - self.steps_trained

    @property
    def utilisation(self) -> float:
        """Which part of the workers' time was at work, from 0 to 1."""
        available = self.workers * self.wall_seconds
        return min(self.worker_seconds / available, 1.0) if available > 0 else 0.0

    def __str__(self) -> str:
        return self.told()

    def told(self, is_whole: bool = True) -> str:
        """Return it in words.

        What was saved is left out where trials did not get as far as was asked, and where more was trained
        than this tuning needed: other studies on the plan were at work too, or something was trained again.
        """
        trained = f"{self.steps_trained:,} trained"
        if self.steps_trained > self.steps_unique:
            trained = f"{self.steps_unique:,} unique steps, {trained} on the plan meanwhile"
        elif is_whole:
            trained += f", {self.steps_saved:,} saved"
        return (
            f"{self.steps_requested:,} steps requested, {trained} (merge rate {self.merge_rate:.2f})\n"
            f"time: {self.wall_seconds:.1f} s on {plural(self.workers, 'worker')}, "
            f"{self.worker_seconds:.1f} worker-seconds ({self.utilisation:.0%} busy)\n"
            f"proofs: {self.proofs}"
        )

    @property
    def proofs(self) -> str:
        """What proofs took, in words."""
        startup = self.proof_startup_seconds
        starting = f", and {startup:.1f} s to start fresh interpreters" if startup else ""
        steps = plural(self.proof_steps, "step")
        return f"{steps} repeated in {self.proof_seconds:.1f} worker-seconds{starting}"
