import pytest

pytest.register_assert_rewrite("executors.conformance", "executors.rig")
