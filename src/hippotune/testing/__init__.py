"""For tests of your own trainers: does a trial come to the same bits however it is cut and moved?"""

from __future__ import annotations

from hippotune.testing.check import Exactness, check_exact

__all__ = ["Exactness", "check_exact"]
