"""``bend-vlm``: each query is made neutral in a space of its own (Gerych et al. 2024).

First it is projected off the group prompts and off what its own group-explicit wordings differ in.
Then it is turned as little as possible until it is as similar, on average, to the nearest reference
images of one group as to those of another. The authors' code finds the second by a general solver;
it is a projection too, off the differences of those means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from equipoise import geometry
from equipoise._space import EncoderRef
from equipoise.errors import InputError
from equipoise.geometry import Float64
from equipoise.methods._arrays import like, to_numpy
from equipoise.methods._context import FitContext
from equipoise.methods._fitting_rows import labelled_images, unit_rows
from equipoise.methods._fitting_texts import matched_texts
from equipoise.methods._operator import Operator
from equipoise.methods._orth_proj import Span, span_of, texts_of
from equipoise.methods._registry import Method
from equipoise.prompts import _grammar as grammar
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._prototypes import encode


class BendVlmOperator(Operator):
    """Texts, each neutral in its own local space; images stay as they are.

    generic (d, r): the basis that every query is projected off. wordings: prompt -> rows (groups,
    d) of its group-explicit forms. references (n, d) with the place (n,) of the group of each.
    """

    method = "bend-vlm"

    def __init__(
        self,
        attribute: Attribute,
        generic: Float64,
        wordings: Mapping[str, Float64],
        references: np.ndarray,
        codes: np.ndarray,
        neighbours: int,
        **options: Any,
    ):
        super().__init__(attribute, ("text",), len(generic), **options)
        self.generic, self.wordings = generic, dict(wordings)
        self.references, self.codes, self.neighbours = references, codes, neighbours

    def _image(self, rows: Any) -> Any:
        return rows

    def _text(self, rows: Any, prompts: Sequence[str] | None) -> Any:
        given = to_numpy(rows)
        texts, good = unit_rows(given)
        out = np.array(given, np.float64)
        for place, text in zip(np.flatnonzero(good).tolist(), texts, strict=True):
            said = None if prompts is None else self.worded(prompts[place])
            out[place] = self.bent(text, said)
        return like(out, rows)

    def bent(self, text: Float64, worded: Float64 | None = None) -> Float64:
        """Return a unit row (d,), neutral. worded (groups, d): its group-explicit forms."""
        projected = _off(text, self.local_basis(worded))
        return _off(projected, geometry.attribute_basis(self.group_means(projected))[0])

    def local_basis(self, worded: Float64 | None) -> Float64:
        """Return the basis of the first step: of every query, and of this one's own wordings."""
        if worded is None:
            return self.generic
        differences = worded[1:] - worded[0]
        return geometry.span_basis(np.vstack([self.generic.T, differences]))

    def group_means(self, text: Float64) -> Float64:
        """Return the mean (groups, d) of the nearest references of each group."""
        scores = self.references @ text.astype(self.references.dtype)
        means = []
        for group in range(len(self.attribute.groups)):
            members = np.flatnonzero(self.codes == group)
            nearest = np.argsort(-scores[members], kind="stable")[: self.neighbours]
            means.append(self.references[members[nearest]].mean(0, dtype=np.float64))
        return np.stack(means)

    def worded(self, prompt: str) -> Float64 | None:
        """Return unit rows (groups, d) of a prompt's group-explicit forms.

        They are the book's, or written by rule for an encoder; None where there are none.
        """
        if prompt in self.wordings or self._encoder is None:
            return self.wordings.get(prompt)
        said = _written(prompt, self.attribute)
        if not said:
            return None
        try:
            return geometry.unit(encode(self._encoder, said))
        except InputError:  # stored vectors of texts know no others
            return None

    def arrays(self) -> dict[str, np.ndarray]:
        found = {"generic": self.generic, "references": self.references, "codes": self.codes}
        if self.params["prompts"]:
            found["wordings"] = np.stack([self.wordings[text] for text in self.params["prompts"]])
        return found

    def settings(self) -> dict[str, Any]:
        return {"neighbours": self.neighbours, "prompts": self.params["prompts"]}

    @classmethod
    def restore(
        cls,
        attribute: Attribute,
        arrays: dict[str, np.ndarray],
        settings: dict[str, Any],
        made_by: EncoderRef,
    ) -> BendVlmOperator:
        references, codes, generic = arrays["references"], arrays["codes"], arrays["generic"]
        prompts = settings["prompts"]
        wordings = arrays.get("wordings", np.empty((0, len(attribute.groups), len(generic))))
        fits = references.shape == (len(codes), len(generic)) and len(wordings) == len(prompts)
        if not fits or set(codes.tolist()) != set(range(len(attribute.groups))):
            raise ValueError("the references and their groups do not match")
        return cls(
            attribute,
            generic,
            dict(zip(prompts, wordings, strict=True)),
            references,
            codes,
            int(settings["neighbours"]),
            encoder=made_by,
            params={"prompts": prompts},
        )


@dataclass(frozen=True)
class BendVlm(Method):
    """Parameters of ``bend-vlm``.

    neighbours: how many of each group's reference images a query is compared with; 100 for gender
    in the code, 10 for race. references: how many of each group are kept at most, drawn by lot.
    span, p0, prototype: what every query is projected off, as in orth-proj; the code has one
    generic prompt per group. A prompt's own wordings are the book's. Without the prompt, or where
    nobody can word it for a group, the first step has the generic prompts alone.
    """

    neighbours: int = 100
    references: int = 2000
    span: Span = "prompts"
    p0: str | tuple[str, ...] = ()
    prototype: str = "both"

    name: ClassVar[str] = "bend-vlm"
    summary: ClassVar[str] = "each query as similar to the nearest images of one group as another"
    source: ClassVar[str] = "Gerych et al. 2024"
    needs: ClassVar[tuple[str, ...]] = ("prompts", "images", "sensitive_features")
    changes: ClassVar[tuple[str, ...]] = ("text",)
    code: ClassVar[str] = "a general solver for what is a projection; its wordings are a model's"
    licence: ClassVar[str] = "none given"
    operator: ClassVar[type[Operator]] = BendVlmOperator

    def fit(self, context: FitContext) -> BendVlmOperator:
        for name in ("neighbours", "references"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)} is not legal; pass 1 or more")
        generic = span_of(self.span, self.name, context, self.prototype, self.p0)
        rows, codes = labelled_images(self.name, context)
        if rows.shape[1] != len(generic):
            raise InputError(
                f"images are {rows.shape[1]} wide and texts {len(generic)}; pass embeddings of one"
                " encoder"
            )
        kept = _drawn(codes, self.references, context.seed)
        wordings = _book_wordings(self.name, context, self.prototype)
        params = asdict(self) | {
            "p0": texts_of(self.p0),
            "images": len(kept),
            "prompts": list(wordings),
        }
        return BendVlmOperator(
            context.attribute,
            generic,
            wordings,
            rows[kept].astype(np.float32),
            codes[kept],
            self.neighbours,
            encoder=context.encoder,
            params=params,
        )


def _off(row: Float64, basis: Float64) -> Float64:
    """Return the unit row (d,) off a basis (d, r); a row inside it stays as it is."""
    rest = row - basis @ (basis.T @ row)
    rest -= basis @ (basis.T @ rest)  # again, since what is left may be small
    length = np.linalg.norm(rest)
    if length <= geometry.limits("float64").pure:
        return row
    return rest / length


def _drawn(codes: np.ndarray, most: int, seed: int) -> np.ndarray:
    """Return the places of at most so many images of each group, in order."""
    rng = np.random.default_rng(seed)
    places = []
    for group in range(codes.max() + 1):
        members = np.flatnonzero(codes == group)
        places.append(rng.permutation(members)[:most])
    return np.sort(np.concatenate(places))


def _book_wordings(method: str, context: FitContext, prototype: str) -> dict[str, Float64]:
    """Return the rows (groups, d) of each prompt of the book, made explicit for each group."""
    if context.prototypes is not None or context.book is None:
        return {}
    rows = matched_texts(method, context, prototype)
    return dict(zip(context.book.prompts, rows, strict=True))


def _written(prompt: str, attribute: Attribute) -> list[str]:
    """Return a prompt in the words of each group, by rule; nothing where there is no person."""
    try:
        return [grammar.write_entry(prompt, attribute, group).anchor for group in attribute.groups]
    except grammar.CannotWrite:
        return []


METHOD = BendVlm
