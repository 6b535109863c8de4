"""What is said when a plan is opened: what changed since the last one, other versions, too many threads."""

from __future__ import annotations

from hippotune.errors import StoreError
from hippotune.identity.key import Origin
from hippotune.identity.parts import shown
from hippotune.identity.versions import changed_versions

_TOO_MANY = 1.5
_TOO_FEW = 0.5


def said_of_move(before: Origin | None, now: Origin) -> str:
    """Say what changed from one plan of a study to another."""
    changes = before.changes_to(now) if before is not None else []
    return f"changed ({shown(changes)})" if changes else "code, settings or seed changed"


def noted_versions(study: str, known: Origin, now: Origin, waived: bool) -> list[str]:
    """Refuse to go on with a plan that other versions made; where that is `waived`, return a note of it."""
    changed = changed_versions(known.versions, now.versions)
    if not changed:
        return []
    if waived:
        return [f"the plan was begun with other versions ({', '.join(changed)}), which version= waives"]
    raise StoreError(
        f"the plan of study {study!r} was made with other versions: {', '.join(changed)}. Its results may "
        "differ from what these versions compute. Install the former ones to go on with it; give another "
        "home= or a version= to begin a new plan (one with version= goes on under all versions)"
    )


def noted_threads(known: Origin, usual: int | None) -> list[str]:
    """Return a note where the threads that a plan keeps do not fit the machine."""
    if known.threads is None or usual is None or _TOO_FEW < known.threads / usual <= _TOO_MANY:
        return []
    return [
        f"the plan keeps the {known.threads} threads a worker that it was begun with, as results depend on "
        f"them; {usual} would fit here: threads={usual} begins another plan"
    ]
