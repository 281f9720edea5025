"""``fairer-clip``: kernel encoders that depend on the class and not on the group.

The method is that of Dehdashtian et al. 2024. Each encoder is a generalised eigenproblem, image and
text in turn. All that the objective holds is of low rank (classes, groups, and a text side that
knows only the class prompts), so each problem is solved in that span: one symmetric solve in
float64, and an eigenproblem as small as the number of classes and groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from equipoise import geometry, kernels
from equipoise._space import EncoderRef
from equipoise.errors import InputError
from equipoise.geometry import Float64
from equipoise.methods._arrays import constant, namespace, normalised
from equipoise.methods._context import FitContext
from equipoise.methods._fitting_rows import directed_images, group_codes
from equipoise.methods._fitting_texts import prototypes
from equipoise.methods._operator import Operator
from equipoise.methods._registry import Method, Strength
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._prototypes import encode

BLOCK = 4096
POINTS = 4000  # at most, of which the bandwidth is taken
ENERGY = 0.95  # of the squared eigenvalues, that the kept directions hold
SOURCES = ("given", "zero-shot")


class Features(NamedTuple):
    """Random Fourier features of a Gaussian kernel: ``sqrt(2 / D) cos(x weights + phases)``.

    weights (d, D), phases (D,).
    """

    weights: np.ndarray
    phases: np.ndarray

    @classmethod
    def draw(cls, rows: Float64, size: int, rng: np.random.Generator) -> Features:
        """Draw features for rows (n, d).

        The bandwidth is the root of half the median squared distance between some of them.
        """
        some = rows
        if len(rows) > POINTS:
            some = rows[rng.choice(len(rows), POINTS, replace=False)]
        squares = (some * some).sum(1)
        distances = squares[:, None] + squares[None] - 2 * some @ some.T
        apart = distances[distances > 1e-12]
        bandwidth = np.sqrt(np.median(apart) / 2) if apart.size else 1.0
        weights = rng.standard_normal((rows.shape[1], size)) / bandwidth
        return cls(weights.astype(np.float32), rng.uniform(0, 2 * np.pi, size).astype(np.float32))

    def of(self, rows: Float64) -> Float64:
        """Return the features (n, D) of rows (n, d)."""
        angles = rows @ self.weights.astype(np.float64) + self.phases
        return np.sqrt(2 / len(self.phases)) * np.cos(angles)


class Tower(NamedTuple):
    """The encoder of one modality: features, and the matrix (D, z) that multiplies them."""

    features: Features
    theta: Float64

    def encode(self, rows: Float64) -> Float64:
        return self.features.of(rows) @ self.theta


class FairerClipOperator(Operator):
    """Unit rows of width z, from one kernel encoder per modality."""

    method = "fairer-clip"

    def __init__(self, attribute: Attribute, image: Tower, text: Tower, **options: Any):
        super().__init__(attribute, ("image", "text"), len(image.features.weights), **options)
        self.towers = {"image": image, "text": text}
        self.out_dim = image.theta.shape[1]

    def _image(self, rows: Any) -> Any:
        return self._encode(rows, "image")

    def _text(self, rows: Any, prompts: Sequence[str] | None) -> Any:
        return self._encode(rows, "text")

    def _encode(self, rows: Any, modality: str) -> Any:
        """Return encoded rows.

        They are computed in float32 or wider, because features are cosines of many radians; and in
        blocks, because each row has thousands of features.
        """
        if kernels.framework(rows) == "torch":
            wide = rows if kernels.dtype_name(rows) == "float64" else rows.float()
            return self._block(wide, modality).to(rows.dtype)
        if not isinstance(rows, np.ndarray):
            return self._block(rows, modality)
        flat = rows.reshape(-1, self.in_dim)
        wide_type = np.result_type(flat, np.float32)
        out = np.empty((len(flat), self.out_dim), rows.dtype)
        for start in range(0, len(flat), BLOCK):
            some = slice(start, start + BLOCK)
            out[some] = self._block(flat[some].astype(wide_type), modality)
        return out.reshape(*rows.shape[:-1], self.out_dim)

    def _block(self, rows: Any, modality: str) -> Any:
        features, theta = self.towers[modality]
        weights = constant(features.weights, rows)
        phases = constant(features.phases, rows)
        angles = normalised(rows) @ weights + phases
        return normalised(namespace(angles).cos(angles) @ constant(theta, rows))

    def arrays(self) -> dict[str, np.ndarray]:
        found = {}
        for modality, (features, theta) in self.towers.items():
            found[f"{modality}.weights"] = features.weights
            found[f"{modality}.phases"] = features.phases
            found[f"{modality}.theta"] = theta
        return found

    def settings(self) -> dict[str, Any]:
        return {}

    @classmethod
    def restore(
        cls,
        attribute: Attribute,
        arrays: dict[str, np.ndarray],
        settings: dict[str, Any],
        made_by: EncoderRef,
    ) -> FairerClipOperator:
        towers = []
        for modality in ("image", "text"):
            weights = arrays[f"{modality}.weights"]
            phases = arrays[f"{modality}.phases"]
            theta = arrays[f"{modality}.theta"]
            are_features = weights.ndim == 2 and phases.shape == weights.shape[1:]
            if not are_features or theta.ndim != 2 or len(theta) != len(phases):
                raise ValueError(f"the features of {modality} do not match")
            towers.append(Tower(Features(weights, phases), theta))
        if towers[0].theta.shape[1] != towers[1].theta.shape[1]:
            raise ValueError("images and texts are of different widths")
        return cls(attribute, *towers, encoder=made_by)


@dataclass(frozen=True)
class FairerClip(Method):
    """Parameters of ``fairer-clip``; the defaults are the code's for CelebA and ViT-L/14.

    tau, tau_z: how much the group and the other modality weigh for images, as tau / (1 - tau);
    tau_text, tau_z_text: the same for texts. dim_z: width of the encoding; None is one less than
    the number of classes, as in the code. labels, sensitive: "given", or "zero-shot" from the
    prompts; the code takes given labels and zero-shot groups. balanced: True draws equally many
    images of every given class, as in the code's CelebA set; without it a rare class can be
    outvoted where signs are chosen. iters: rounds where labels are zero-shot; otherwise there is
    one.
    """

    features: int = 4000
    dim_z: int | None = None
    gamma: float = 3e-5
    gamma_text: float = 3e-4
    tau: float = 0.7
    tau_z: float = 0.3
    tau_text: float = 0.1
    tau_z_text: float = 0.1
    iters: int = 3
    labels: Literal["given", "zero-shot"] = "given"
    sensitive: Literal["given", "zero-shot"] = "zero-shot"
    balanced: bool = False

    name: ClassVar[str] = "fairer-clip"
    summary: ClassVar[str] = "kernel encoders that depend on the class and not on the group"
    source: ClassVar[str] = "Dehdashtian et al. 2024"
    needs: ClassVar[tuple[str, ...]] = ("images", "labels", "class_prompts", "prompts")
    training: ClassVar[str] = "generalised eigenproblems, image and text in turn"
    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    sweep: ClassVar[Strength | None] = Strength("tau", 0, (0.1, 0.3, 0.5, 0.7, 0.9), becomes="")
    code: ClassVar[str] = (
        "groups are zero-shot guesses in every configuration (sensitive=given); retrieval is not"
        " defined, though the paper reports it"
    )
    licence: ClassVar[str] = "none given"
    operator: ClassVar[type[Operator]] = FairerClipOperator

    def fit(self, context: FitContext) -> FairerClipOperator:
        self._check()
        context.require(self.name, "images", "class_prompts")
        classes, texts = self._classes(context)
        images, y, s = self._rows(context, classes, texts)
        rng = np.random.default_rng(context.seed)
        if self.balanced and self.labels == "given":
            kept = _as_many_of_each(y, rng)
            images, y, s = images[kept], y[kept], s[kept]
        image_features = Features.draw(images, self.features, rng)
        text_features = Features.draw(texts, self.features, rng)
        of_images = _Problem(
            image_features, images, np.ones(len(images)), self.gamma, self.tau, self.tau_z
        )
        size = max(1, len(classes) - 1) if self.dim_z is None else self.dim_z
        sensitive = _centred_one_hot(s, len(context.attribute.groups))
        theta = of_images.theta(_centred_one_hot(y, len(classes)), sensitive, None, size)
        image = Tower(image_features, theta)
        text: Any = None  # until the first round
        rounds = self.iters if self.labels == "zero-shot" else 1
        for _ in range(rounds):
            if text is not None:
                y = _nearest(image.encode(images), text.encode(texts))
                _require_classes(y, classes)
            members = np.eye(len(classes))[y]
            sizes = members.sum(0)
            labels = _centred_one_hot(y, len(classes))
            z = image.encode(images)
            of_texts = _Problem(
                text_features, texts, sizes, self.gamma_text, self.tau_text, self.tau_z_text
            )
            other = _root(members.T @ self._kernel(z, rng))
            theta = of_texts.theta(members.T @ labels, members.T @ sensitive, other, size)
            class_means = members.T @ z / sizes[:, None]
            theta = _aligned(theta, text_features.of(texts) @ theta, class_means, sizes)
            text = Tower(text_features, theta)
            z = text.encode(texts)
            other = _root(self._kernel(z, rng, sizes))[y]
            theta = of_images.theta(labels, sensitive, other, size)
            encoded = image_features.of(images) @ theta
            theta = _aligned(theta, encoded, z[y], np.ones(len(images)))
            image = Tower(image_features, theta)
        return self._operator(context, image, text, len(images))

    def _operator(
        self, context: FitContext, image: Tower, text: Tower, images: int
    ) -> FairerClipOperator:
        width = min(image.theta.shape[1], text.theta.shape[1])
        towers = []
        for tower in (image, text):
            theta = np.ascontiguousarray(tower.theta[:, :width])
            towers.append(tower._replace(theta=theta))
        params = asdict(self) | {"dim_z": width, "images": images}
        return FairerClipOperator(
            context.attribute, *towers, encoder=context.encoder, params=params
        )

    def _check(self) -> None:
        for name in ("tau", "tau_z", "tau_text", "tau_z_text"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(
                    f"{name}={getattr(self, name)} is not legal; it is a number from 0 to below 1,"
                    " where its weight grows without bound"
                )
        no_width = self.dim_z is not None and self.dim_z < 1
        if (
            self.gamma <= 0
            or self.gamma_text <= 0
            or self.features < 2
            or self.iters < 1
            or no_width
        ):
            raise InputError(
                "gamma and gamma_text must be positive, features 2 or more, iters and dim_z 1 or"
                " more"
            )
        for name in ("labels", "sensitive"):
            if getattr(self, name) not in SOURCES:
                raise InputError(
                    f"{name}={getattr(self, name)!r} is not legal; pass one of {', '.join(SOURCES)}"
                )

    def _kernel(
        self, z: Float64, rng: np.random.Generator, weights: np.ndarray | None = None
    ) -> Float64:
        """Return features of the other modality's encoding, centred over the samples.

        weights: how many samples each row stands for; None for one each.
        """
        features = Features.draw(z, self.features, rng).of(z)
        return features - np.average(features, axis=0, weights=weights)

    def _classes(self, context: FitContext) -> tuple[list[Any], Float64]:
        given = context.class_prompts or ()
        pairs = given.items() if isinstance(given, Mapping) else enumerate(given)
        prompts: dict[Any, str] = dict(pairs)
        if len(prompts) < 2:
            raise InputError(
                f"{self.name} needs two class prompts or more, and {len(prompts)} were given"
            )
        if context.text_encoder is None:
            raise InputError(
                f"{self.name} needs an encoder or text_table for the class prompts, which the"
                " context lacks"
            )
        return list(prompts), geometry.unit(encode(context.text_encoder, list(prompts.values())))

    def _rows(
        self, context: FitContext, classes: list[Any], texts: Float64
    ) -> tuple[Float64, np.ndarray, np.ndarray]:
        """Return the images that have a direction, a class and a group; the places of both."""
        images, good = directed_images(context, texts.shape[1])
        if self.labels == "given":
            y = self._labels(context, classes, len(good))[good]
        else:
            y = _nearest(images, texts)
        if self.sensitive == "given":
            context.require(self.name, "sensitive_features")
            s = group_codes(context.sensitive_features, context.attribute)
            _require_length(s, len(good), "sensitive_features")
            s = s[good]
        else:
            s = _nearest(images, prototypes(self.name, context))
        known = (y >= 0) & (s >= 0)
        _require_classes(y[known], classes)
        if len(np.unique(s[known])) < 2:
            raise InputError(
                f"{self.name} needs images of two groups or more; the images with a class are all"
                " of one"
            )
        return images[known], y[known], s[known]

    def _labels(self, context: FitContext, classes: list[Any], rows: int) -> np.ndarray:
        from equipoise.metrics._labels import encode as encode_labels

        context.require(self.name, "labels")
        coded = encode_labels(context.labels, "labels")
        _require_length(coded.codes, rows, "labels")
        unknown = [label for label in coded.labels if label not in classes]
        if unknown:
            raise InputError(
                f"labels hold {unknown[0]!r}, which has no class prompt; class_prompts has"
                f" {classes[:10]}"
            )
        places = [classes.index(label) for label in coded.labels]
        places.append(-1)  # of an unknown label, whose code is -1
        return np.array(places)[coded.codes]


class _Problem:
    """The eigenproblem of one modality.

    rows (k, d) stand for ``weights`` (k,) samples: an image for one, a class prompt for its class.
    """

    def __init__(
        self,
        features: Features,
        rows: Float64,
        weights: np.ndarray,
        gamma: float,
        tau: float,
        tau_z: float,
    ):
        self.features, self.rows, self.weights = features, rows, weights
        self.tau, self.tau_z = tau, tau_z
        self.samples = weights.sum()
        self.ridge = gamma * self.samples

    def theta(
        self, labels: Float64, sensitive: Float64, other: Float64 | None, size: int
    ) -> Float64:
        """Return the u (D, z) of the largest l in ``C^-1 (B_y + .. B_z - .. B_s) u = l u``.

        C is R_c^T R_c + n gamma I, each B is (R^T A)(R^T A)^T over its norm. labels, sensitive,
        other: the A of each, summed over the samples that a row stands for. With B = F S F^T, F
        thin and S signs, every u of l != 0 is C^-1 F w: with H = F^T C^-1 F, that is an
        eigenproblem of H^1/2 S H^1/2.
        """
        terms = [(1.0, labels), (-self.tau / (1 - self.tau), sensitive)]
        if other is not None:
            terms.append((self.tau_z / (1 - self.tau_z), other))
        parts, signs = [], []
        for weight, columns in terms:
            if not weight:
                continue
            part = self._cross(columns)
            norm = np.linalg.norm(part, 2)
            if norm > 0:
                parts.append(part * np.sqrt(abs(weight)) / norm)
                signs += [np.sign(weight)] * part.shape[1]
        thin = np.hstack(parts)
        solved = self._solve(thin)
        values, vectors = np.linalg.eigh(thin.T @ solved)
        kept = values > values[-1] * 1e-12
        roots, vectors = np.sqrt(values[kept]), vectors[:, kept]
        strengths, found = np.linalg.eigh(roots[:, None] * ((vectors.T * signs) @ vectors) * roots)
        count = self._count(strengths[::-1], size)
        u = solved @ (vectors @ (found[:, ::-1][:, :count] / roots[:, None]))
        return np.sqrt(self.samples) * u / np.linalg.norm(u, axis=0)

    def _count(self, strengths: Float64, size: int) -> int:
        """Return how many directions of positive strength are kept: the fewest with the energy."""
        positive = min(int((strengths > max(strengths[0], 0) * 1e-9).sum()), size)
        if not positive:
            raise InputError(
                "fairer-clip: no direction depends on the class more than on the group at tau"
                f" {self.tau}; pass a smaller one"
            )
        if not self.tau:
            return positive
        energy = np.cumsum(strengths[:positive] ** 2)
        return int((energy < ENERGY * energy[-1]).sum()) + 1

    def _cross(self, columns: Float64) -> Float64:
        """Return ``R^T columns``, summed block by block."""
        found: Any = 0
        for some in self._blocks():
            found = found + self.features.of(self.rows[some]).T @ columns[some]
        return found

    def _blocks(self) -> list[slice]:
        return [slice(start, start + BLOCK) for start in range(0, len(self.rows), BLOCK)]

    def _solve(self, right: Float64) -> Float64:
        """Return ``C^-1 right``, by Cholesky of the smaller Gram matrix.

        Where there are fewer rows than features, Woodbury's identity gives it.
        """
        from scipy.linalg import cho_solve

        factor, rows = self._factor
        if rows is None:
            return cho_solve(factor, right)
        return (right - rows.T @ cho_solve(factor, rows @ right)) / self.ridge

    @cached_property
    def _factor(self) -> tuple[Any, Float64 | None]:
        from scipy.linalg import cho_factor

        mean = self._cross(self.weights[:, None])[:, 0] / self.samples
        rows = None
        if len(self.rows) < len(mean):
            rows = np.sqrt(self.weights)[:, None] * (self.features.of(self.rows) - mean)
            gram = rows @ rows.T
        else:
            gram = -self.samples * np.outer(mean, mean)
            for some in self._blocks():
                block = self.features.of(self.rows[some])
                gram += (block * self.weights[some, None]).T @ block
        gram.flat[:: len(gram) + 1] += self.ridge
        return cho_factor(gram, lower=True, overwrite_a=True), rows


def _root(rows: Float64) -> Float64:
    """Return a matrix (k, k) that has the Gram matrix of rows (k, D)."""
    values, vectors = np.linalg.eigh(rows @ rows.T)
    return vectors * np.sqrt(np.maximum(values, 0))


def _centred_one_hot(codes: np.ndarray, size: int) -> Float64:
    columns = np.eye(size)[codes]
    return columns - columns.mean(0)


def _as_many_of_each(codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw equally many rows of each code, as many as the rarest has; return their places."""
    sizes = np.bincount(codes)
    drawn = []
    for code in range(len(sizes)):
        members = np.flatnonzero(codes == code)
        drawn.append(rng.choice(members, sizes.min(), replace=False))
    return np.sort(np.concatenate(drawn))


def _nearest(rows: Float64, others: Float64) -> np.ndarray:
    return (normalised(rows) @ normalised(others).T).argmax(1)


def _aligned(theta: Float64, encoded: Float64, other: Float64, weights: np.ndarray) -> Float64:
    """Return theta turned so that the encodings agree with those of the other modality.

    The eigenproblem leaves sign and rotation open. One dimension takes the sign that most samples
    agree with, as the code has it; more take the best rotation (Procrustes).
    """
    width = min(encoded.shape[1], other.shape[1])
    theta, encoded, other = theta[:, :width], encoded[:, :width], other[:, :width]
    if width == 1:
        opposed = np.average(encoded[:, 0] * other[:, 0] < 0, weights=weights)
        return theta * (-1.0 if opposed > 0.5 else 1.0)
    left, _, right = np.linalg.svd((encoded * weights[:, None]).T @ other)
    return theta @ (left @ right)


def _require_classes(y: np.ndarray, classes: list[Any]) -> None:
    missing = [label for i, label in enumerate(classes) if not (y == i).any()]
    if missing:
        raise InputError(
            f"fairer-clip: no image is of the class {missing[0]!r}; add some, or leave its"
            " prompt out"
        )


def _require_length(codes: np.ndarray, rows: int, what: str) -> None:
    if len(codes) != rows:
        raise InputError(f"there are {rows} images and {len(codes)} {what}; pass one for each")


METHOD = FairerClip
