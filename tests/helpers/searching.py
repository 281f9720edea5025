"""What two searches found must be the same: indices, scores, and their types."""

from __future__ import annotations

import numpy as np


def assert_same(found, expected):
    """Both are ``(indices, scores)``; scores are compared bit for bit."""
    assert found[0].dtype == np.int64 and found[1].dtype == np.float32
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])
