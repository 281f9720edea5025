"""An encoder of texts without a model."""

from __future__ import annotations

import numpy as np

import equipoise as eq
from tests.helpers.common import unit

GENDER = eq.Attribute("gender", ("male", "female"))


class Words:
    """An encoder of texts: random unit rows, the same for the same text."""

    id, revision, fingerprint, dim = "test:words", "", "words", 32

    def encode_text(self, texts):
        return unit(
            np.stack(
                [np.random.default_rng(list(text.encode())).standard_normal(32) for text in texts]
            )
        ).astype(np.float32)
