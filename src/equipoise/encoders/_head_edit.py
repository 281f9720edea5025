"""``HeadEdit``: LTC's ablation of attention heads, which changes an encoder and not its rows.

Yeo et al. 2025, Debiasing CLIP: Interpreting and Correcting Bias in Attention Heads. What a head
adds to an image's row is replaced by what it adds on average.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise import _artefact as artefact
from equipoise._display import cut
from equipoise._documents import validated
from equipoise._space import EncoderRef
from equipoise._space_document import EncoderFacts
from equipoise._version import __version__
from equipoise.encoders._encoder import Encoder, Unreadable
from equipoise.encoders._head_document import Found, HeadEditMetadata
from equipoise.encoders._head_locating import Decisions, behind_errors, carrying, decide
from equipoise.errors import InputError

KIND = "head edit"
MEANS = "means"
Head = tuple[int, int]


@dataclass(frozen=True, eq=False)
class HeadEdit:
    """Attention heads of a CLIP that add the same to every image.

    heads: the layer of each head and its place there, both from 0. means (heads, dim): what each
    adds to a unit row, on average over the images that it was fitted on. found: "given", or how the
    heads were found.
    """

    heads: tuple[Head, ...]
    means: np.ndarray
    encoder: EncoderRef
    found: Found = "given"
    images: int = 1

    @classmethod
    def fit(
        cls,
        encoder: Encoder,
        pictures: Iterable[Any],
        *,
        heads: Sequence[Head] | None = None,
        sensitive_features: Iterable[Any] | None = None,
        labels: Iterable[Any] | None = None,
        class_prompts: Mapping[Any, str] | None = None,
        group_prompts: Mapping[Any, str] | None = None,
    ) -> HeadEdit:
        """Find the heads to edit, and what they add on average.

        encoder: a CLIP of hf:. pictures: as ``encode_images`` takes them; those that cannot be read
        are left out. Pass one of these:

        - heads, where you know them.
        - labels, class_prompts and sensitive_features: the heads that decide the errors about the
          group that a class is classified worst for.
        - group_prompts and sensitive_features: the heads that decide which group is seen.
        """
        question = _Question.of(heads, sensitive_features, labels, class_prompts, group_prompts)
        taken = _TakenApart(encoder)
        if heads is not None:
            check_heads(heads, taken.shape)
        seen = taken.read(pictures, question)
        chosen = [(int(layer), int(head)) for layer, head in heads or ()]
        if heads is None:
            places = question.places(seen)
            chosen = [taken.every_head[place] for place in places]
        means = [seen.means[taken.every_head.index(head)] for head in chosen]
        rows = np.array(means, np.float32).reshape(len(chosen), encoder.dim)
        return cls(tuple(chosen), rows, EncoderRef.of(encoder), question.found, seen.images)

    def apply(self, encoder: Encoder) -> Encoder:
        """Return an encoder of edited images; texts are the same, and ``encoder`` stays as it is.

        encoder: the one that the edit was fitted with, wherever it lies.
        """
        from equipoise.encoders._heads import edited

        return Encoder(
            edited(_towers(encoder), self, f"{encoder.id}+heads"),
            batch_size=encoder.batch_size("image"),
            workers=encoder.workers,
            cache=encoder.cache,
            show_progress=encoder.show_progress,
        )

    @property
    def fingerprint(self) -> str:
        """Return a digest that differs between edits that give other rows."""
        return artefact.digest({MEANS: self.means}, {"heads": self.heads})

    def metadata(self) -> HeadEditMetadata:
        """Return everything but the means, as the file holds it."""
        return HeadEditMetadata(
            heads=self.heads,
            found=self.found,
            images=self.images,
            encoder=EncoderFacts(**self.encoder._asdict()),
            version=__version__,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file, atomically; ``load_encoder("heads:FILE")`` reads it."""
        artefact.save(path, KIND, {MEANS: self.means}, self.metadata().to_plain())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> HeadEdit:
        """Read what ``save`` wrote."""
        arrays, document = artefact.load(path, KIND)
        with artefact.whole(path, "a whole head edit", "copy it again, or fit it again"):
            facts = validated(HeadEditMetadata, document)
            means = arrays[MEANS]
            count = len(facts.heads)
            if means.dtype != np.float32 or means.ndim != 2 or len(means) != count:
                raise ValueError(f"means are {means.dtype} {means.shape}, for {count} heads")
            if not np.isfinite(means).all():
                raise ValueError("means are not finite")
            made_by = EncoderRef(**facts.encoder.model_dump())
            return cls(facts.heads, means, made_by, facts.found, facts.images)

    def __repr__(self) -> str:
        named = ", ".join(f"{layer}.{head}" for layer, head in self.heads[:8])
        more = ", ..." if len(self.heads) > 8 else ""
        return (
            f"HeadEdit(heads=[{named}{more}], found={self.found!r}, images={self.images:,},"
            f" encoder={cut(self.encoder.id)!r})"
        )


@dataclass(frozen=True)
class _Question:
    """What heads are asked about each image: its class, its group, or nothing."""

    found: Found
    prompts: Mapping[Any, str]
    truth: list[Any]
    groups: list[Any]

    @classmethod
    def of(
        cls,
        heads: Any,
        groups: Iterable[Any] | None,
        labels: Iterable[Any] | None,
        class_prompts: Mapping[Any, str] | None,
        group_prompts: Mapping[Any, str] | None,
    ) -> _Question:
        """Return the question that the arguments ask; raise where they ask none, or several."""
        given = {
            "heads": heads is not None,
            "class_prompts": class_prompts is not None,
            "group_prompts": group_prompts is not None,
        }
        if sum(given.values()) != 1:
            named = " and ".join(name for name, there in given.items() if there) or "none"
            raise InputError(
                "HeadEdit.fit takes one of heads, class_prompts (with labels and"
                f" sensitive_features) and group_prompts (with sensitive_features), and {named} of"
                " these was given"
            )
        if heads is not None:
            return cls("given", {}, [], [])
        members = _one_each(groups, "sensitive_features, the group of each picture")
        if group_prompts is not None:
            return cls("attribute", _checked_prompts(group_prompts, members), members, members)
        truth = _one_each(labels, "labels, the class of each picture")
        if len(truth) != len(members):
            raise InputError(
                f"{len(truth)} labels and {len(members)} sensitive_features were given; pass one"
                " of each per picture"
            )
        return cls("errors", _checked_prompts(class_prompts or {}, truth), truth, members)

    def require_one_each(self, pictures: int) -> None:
        """Raise unless there is one answer per picture."""
        if self.prompts and pictures != len(self.truth):
            what = "sensitive_features" if self.found == "attribute" else "labels"
            raise InputError(
                f"{pictures} pictures and {len(self.truth)} {what} were given; pass one per picture"
            )

    def places(self, seen: _Seen) -> list[int]:
        """Return the places of the heads that answer, among all heads."""
        count = len(seen.means)
        decisions = Decisions(*np.array(seen.decisions).T)
        if self.found == "attribute":
            found = carrying(decisions, count)
        else:
            groups = np.array(self.groups)[seen.readable]
            found = behind_errors(decisions, groups, count)
        if not found:
            raise InputError(
                f"no head decides more than its share of {len(decisions.heads)} images, so there"
                " is none to edit; pass other images, or name heads="
            )
        return found


@dataclass(frozen=True)
class _Seen:
    """What was read of the pictures: which could be, and what all heads add on average."""

    readable: list[int]
    means: np.ndarray
    decisions: list[tuple[int, int, int]]

    @property
    def images(self) -> int:
        return len(self.readable)


class _TakenApart:
    """An encoder that gives each picture's row and, with it, what every head adds."""

    def __init__(self, encoder: Encoder):
        from equipoise.encoders._head_module import HeadParts
        from equipoise.encoders._heads import EditedTowers

        towers = _towers(encoder)
        module = HeadParts(towers.module)
        self.shape, self.every_head = module.shape, module.every_head
        inside = EditedTowers(towers, module, towers.id, "parts")
        inside.dim = (1 + len(self.every_head)) * towers.dim
        self.encoder = encoder
        self.parts = Encoder(inside, workers=encoder.workers, show_progress=encoder.show_progress)

    def read(self, pictures: Iterable[Any], question: _Question) -> _Seen:
        """Take every picture apart, one after the other."""
        if isinstance(pictures, Sequence):
            question.require_one_each(len(pictures))
        names = list(question.prompts)
        texts = np.zeros((0, self.encoder.dim))
        if names:
            texts = self.encoder.encode_text(list(question.prompts.values())).astype(np.float64)
        readable, decisions = [], []
        total = np.zeros((len(self.every_head), self.encoder.dim))
        count = 0
        for count, (row, parts) in enumerate(self._pieces(pictures), 1):
            if row is None:
                continue
            readable.append(count - 1)
            total += parts
            if names and count <= len(question.truth):
                truth = names.index(question.truth[count - 1])
                best, head = decide(row, parts, texts, truth)
                decisions.append((best, truth, head))
        question.require_one_each(count)
        if not readable:
            raise InputError(f"none of the {count} pictures can be read; pass pictures that can")
        return _Seen(readable, total / len(readable), decisions)

    def _pieces(self, pictures: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Yield each row and its parts (heads, dim); None twice for a picture that has no row."""
        for found in self.parts.iter_images(pictures):
            if isinstance(found, Unreadable):
                yield None, None
                continue
            pieces = found.astype(np.float64).reshape(-1, self.encoder.dim)
            pieces /= np.linalg.norm(pieces[0])  # the encoder made one unit row of all of them
            yield pieces[0], pieces[1:]


def _towers(encoder: Any) -> Any:
    towers = getattr(encoder, "towers", None)
    if getattr(towers, "module", None) is None:
        shown = getattr(encoder, "id", type(encoder).__name__)
        raise InputError(
            f"{shown} has no attention heads that can be reached; pass a CLIP with a vision"
            " transformer: load_encoder('hf:...')"
        )
    return towers


def check_heads(heads: Sequence[Head], shape: tuple[int, int]) -> None:
    """Raise for what is no head of so many layers with so many places, or is given twice."""
    layers, places = shape
    seen = set()
    for pair in heads:
        whole = len(pair) == 2 and all(isinstance(part, int | np.integer) for part in pair)
        if not whole or not (0 <= pair[0] < layers and 0 <= pair[1] < places):
            raise InputError(
                f"{pair!r} is no head of this encoder; pass pairs (layer, place), with layers from"
                f" 0 to {layers - 1} and places from 0 to {places - 1}"
            )
        if tuple(pair) in seen:
            raise InputError(f"the head {tuple(pair)} was given twice; pass it once")
        seen.add(tuple(pair))


def _one_each(values: Iterable[Any] | None, what: str) -> list[Any]:
    if values is None:
        raise InputError(f"HeadEdit.fit needs {what}; pass one per picture")
    return list(values)


def _checked_prompts(prompts: Mapping[Any, str], truth: list[Any]) -> Mapping[Any, str]:
    if len(prompts) < 2:
        raise InputError(f"prompts of {len(prompts)} kinds were given; pass two or more")
    missing = [name for name in truth if name not in prompts]
    if missing:
        raise InputError(
            f"{missing[0]!r} has no prompt; there are prompts for"
            f" {', '.join(map(repr, list(prompts)[:8]))}"
        )
    return prompts
