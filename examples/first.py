"""The README's example and a little more, on data it makes: the assertions prove the claim."""

import numpy as np

import equipoise as eq

rng = np.random.default_rng(0)
male, female = rng.standard_normal(
    (2, 512)
)  # prototypes: a text encoder's "a male doctor", "a female doctor"
images = (
    rng.standard_normal((10_000, 512)) + rng.standard_normal((10_000, 1)) * (male - female) / 10
)
texts = rng.standard_normal((50, 512)) + rng.standard_normal((50, 1)) * (male - female) / 10

space = eq.AttributeSpace.from_prototypes({"male": male, "female": female})
u = eq.debias(images, space)

c = eq.certify(images, space, u=u)
assert np.allclose(np.linalg.norm(u, axis=1), 1)  # still unit vectors
assert np.allclose(
    np.abs(u @ space.basis[:, 0]), c.leakage
)  # what is left of the attribute, as certified
assert (c.leakage < c.leakage_before / 2).all()  # at most half of it, 38 % where there was little
o = np.sqrt(1 - c.leakage_before**2)
assert np.allclose(
    c.leakage / c.leakage_before, c.self_loss / (1 - o)
)  # fairness and utility lose alike (Theorem 1)

e, t = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (images, texts))
moved = np.abs(u @ eq.debias(texts, space).T - e @ t.T)  # every image-text similarity
assert (moved <= eq.cross_bound(c, eq.certify(texts, space))).all()  # moved within its bound

if __name__ == "__main__":
    print(
        f"{len(images):,} images, rank {space.rank} of {space.dim} dimensions, kernel:"
        f" {eq.kernels.which(images)}"
    )
    for name in ("leakage_before", "leakage", "self_loss"):
        values = c.summary()[name]
        print(
            f"{name:>15}: mean {values['mean']:.4f}, 95 % of rows under {values['p95']:.4f},"
            f" largest {values['max']:.4f}"
        )
    print(f"Similarities moved by at most {moved.max():.4f}; every one within its bound.")
