"""What was proved of a plan's trainer, in words."""

from __future__ import annotations

from collections.abc import Sequence

from hippotune.plan.facts import ProofRecorded, width_refutation
from hippotune.short import plural


def said_of(proofs: Sequence[ProofRecorded]) -> str:
    """Say whether resumed trials are the trials that they go on with, as far as that was proved."""
    narrow = width_refutation(proofs)
    return _resumed(proofs) + ("" if narrow is None else f"; on one worker alone: {narrow.text}")


def _resumed(proofs: Sequence[ProofRecorded]) -> str:
    differs = next((each for each in proofs if each.outcome == "differs" and each.kind != "width"), None)
    if differs is not None:
        return f"not exact: {differs.text}"
    audits = sum(each.kind == "audit" for each in proofs)
    at_branches = f", {plural(audits, 'step')} repeated at branches" if audits else ""
    spread = max((each.spread for each in proofs if each.outcome == "noisy"), default=None)
    if spread is not None:
        return f"equal up to the noise of its kernels (floats differ by {spread:.1g} at most){at_branches}"
    if not any(each.kind == "rehearsal" for each in proofs):
        return "not rehearsed yet"
    return f"exact: rehearsed{at_branches}"
