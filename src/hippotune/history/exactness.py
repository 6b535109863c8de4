"""What was proved of a plan's trainer, in words."""

from __future__ import annotations

from collections.abc import Sequence

from hippotune.plan.facts import ProofRecorded, refutation, width_refutation
from hippotune.short import plural


def said_of(proofs: Sequence[ProofRecorded]) -> str:
    """Say in a line whether resumed trials are the trials that they go on with, as far as that was proved."""
    said = _resumed(proofs)
    if width_refutation(proofs) is not None:
        said += "; on one worker at a time: several learn differently"
    texts = told_by(proofs)
    return f"{said} ({plural(len(texts), 'finding')}: hippo show)" if texts else said


def told_by(proofs: Sequence[ProofRecorded]) -> list[str]:
    """Return what proofs have found and a person should read, each once."""
    return list(dict.fromkeys(each.text for each in proofs if each.text))


def is_proved(proofs: Sequence[ProofRecorded]) -> bool:
    """Whether results count: the trainer was rehearsed, and nothing has shown since that it is not exact."""
    return any(each.kind == "rehearsal" for each in proofs) and refutation(proofs) is None


def _resumed(proofs: Sequence[ProofRecorded]) -> str:
    if (differs := refutation(proofs)) is not None:
        what = "what is measured" if differs.path is None else differs.path
        return f"not exact: {what} differs after step {differs.step}"
    audits = sum(each.kind == "audit" for each in proofs)
    at_branches = f", {plural(audits, 'step')} repeated at branches" if audits else ""
    spread = max((each.spread for each in proofs if each.outcome == "noisy"), default=None)
    if spread is not None:
        return f"equal up to the noise of its kernels (floats differ by {spread:.1g} at most){at_branches}"
    if not any(each.kind == "rehearsal" for each in proofs):
        return "not rehearsed yet"
    return f"exact: rehearsed{at_branches}"
