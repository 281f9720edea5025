"""Collections with planted groups, and balanced search fitted on them."""

from __future__ import annotations

import numpy as np

import equipoise as eq
from tests.helpers.common import unit

GENDER = eq.Attribute("gender", ("male", "female"))
RACE = eq.Attribute.load("race")
DIM, K = 32, 10


def collection(attribute=GENDER, n=600, seed=0):
    """Images with a group each, of which the first is rarer; matched prompts; queries that lean."""
    rng = np.random.default_rng(seed)
    groups = len(attribute.groups)
    axes = unit(rng.standard_normal((groups, DIM)))
    shares = np.arange(1, groups + 1) / np.arange(1, groups + 1).sum()
    codes = rng.choice(groups, n, p=shares)
    images = unit(0.5 * axes[codes] + 0.2 * rng.standard_normal((n, DIM))).astype(np.float32)
    prompts = unit(axes + 0.05 * rng.standard_normal((4, groups, DIM))).transpose(1, 0, 2)
    texts = unit(rng.standard_normal((6, DIM)) + 2 * axes[0] - axes[1]).astype(np.float32)
    named = dict(zip(attribute.groups, prompts, strict=True))
    return images, named, texts, codes


def fitted(attribute=GENDER, images=None, context=None, **params):
    rows, named, _, _ = collection(attribute)
    given = eq.FitContext(
        attribute, prototypes=named, images=rows if images is None else images, **(context or {})
    )
    return eq.methods.create("balanced", **({"k": K} | params)).fit(given)
