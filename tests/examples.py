"""How many examples hypothesis draws is said by the profiles in conftest.py; here, what differs from them."""

from __future__ import annotations

from hypothesis import settings

# Where an example is a whole study, a database or a model. More in a thorough profile, as everywhere.
few_examples = settings(max_examples=max(settings().max_examples // 4, 1))
