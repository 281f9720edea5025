"""From what was typed to plans: files read, names looked up, cheap mistakes found first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise._artefact import require_writable
from equipoise._audit.documents import RESULTS
from equipoise._audit.embedded_gallery import find_gallery, judged, read_gallery
from equipoise._audit.plan import Plan, Settings, columns_for, make_plan
from equipoise._audit.sources import Source, read_images
from equipoise._fitting import text_encoder
from equipoise._space import check_options
from equipoise.datasets._checks import attribute_of
from equipoise.errors import InputError
from equipoise.methods._specs import parse
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._book import PromptBook
from equipoise.prompts._writing import read_prompts

MINI = "mini"
GALLERY, NONE = "gallery", "none"  # in place of a path: the embedded pictures; texts only


@dataclass(frozen=True)
class Request:
    """What to audit, as typed; see ``equipoise audit --help``."""

    model: str | None = None
    vectors: Path | None = None
    images: Path | None = None
    embeddings: Path | None = None
    root: Path | None = None
    attributes: Sequence[str] = ()
    group_columns: Sequence[str] = ()
    label_column: str | None = None
    caption_column: str | None = None
    prompts: str | None = None
    book: str | None = None
    methods: Sequence[str] = ()
    kappa: float | None = None

    def plans(self, settings: Settings, **encoder_options: Any) -> list[Plan]:
        """One for each attribute; the model last, because it takes longest to load."""
        if self.kappa is not None:
            check_options(kappa=self.kappa)
        specs = parse(self.methods) if self.methods else None
        attributes = [Attribute.load(name) for name in self.attributes]
        attributes = attributes or [
            attribute_of(self.group_columns) if self.group_columns else Attribute.load("gender")
        ]
        if len({attribute.name for attribute in attributes}) < len(attributes):
            raise InputError(
                f"an attribute was named twice: {[attribute.name for attribute in attributes]};"
                " each gets a folder of its name"
            )
        prompts = None if self.prompts is None else _prompts(self.prompts)
        columns: dict[str, Any] = {
            "label_column": self.label_column,
            "caption_column": self.caption_column,
        }
        source = self._source(columns)
        if source is None and (given := self._needs_images()):
            raise InputError(f"{given} is about images, and there are none; pass --images")
        encoder = self._encoder(encoder_options)
        options = {
            "prompts": prompts,
            "book": self.book,
            "specs": specs,
            "kappa": self.kappa,
            "source": source,
            "settings": settings,
        }
        return [
            make_plan(
                encoder,
                attribute,
                group_columns=self._columns(attribute, source),
                **columns,
                **options,
            )
            for attribute in attributes
        ]

    def _source(self, columns: dict[str, Any]) -> Source | None:
        """The photographs that are named; for mini, where none are, the gallery that comes with
        it.
        """
        columns = columns | {"group_columns": self.group_columns}
        if self.images is None:
            alone = self.model in (None, MINI) and self.vectors is None and self.embeddings is None
            found = find_gallery() if alone else None
            return None if found is None else read_gallery(found, **columns)
        word = None if self.images.exists() else str(self.images)
        if word == NONE:
            return None
        if word == GALLERY:
            return read_gallery(find_gallery(), self.embeddings, **columns)
        return read_images(self.images, self.embeddings, root=self.root, **columns)

    def _columns(self, attribute: Attribute, source: Source | None) -> tuple[str, ...]:
        given = source is None or source.generated is None or self.group_columns
        return columns_for(attribute, self.group_columns) if given else judged(attribute)

    def _needs_images(self) -> str:
        given = {
            "--embeddings": self.embeddings,
            "--group-columns": self.group_columns,
            "--label-column": self.label_column,
        }
        return next(
            (
                name
                for name, value in (given | {"--caption-column": self.caption_column}).items()
                if value
            ),
            "",
        )

    def _encoder(self, options: dict[str, Any]) -> Any:
        if self.vectors is not None:
            return text_encoder(self.model, self.vectors)
        from equipoise.encoders import load_encoder

        return load_encoder(self.model or MINI, cache=True, **options)


def prepare(folder: Path, force: bool) -> None:
    """Raise now for a folder that may not be written to, before long work.

    Nothing is overwritten without ``force``.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; pass the name of a folder to write")
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise InputError(
            f"{folder} is there already and not empty; pass another --out, or --force to replace an"
            " audit's files in it"
        )
    require_writable(folder / RESULTS)


def folder_of(out: Path, plan: Plan, plans: Sequence[Plan]) -> Path:
    """Where an audit's files go: the folder itself, or one inside it for each of several
    attributes.
    """
    return (
        out if len(plans) == 1 else out / plan.attribute.name.replace(" & ", "-").replace(" ", "-")
    )


def _prompts(given: str) -> list[str] | str:
    """The prompts of a text file, or the name of the book whose prompts are meant."""
    if given in PromptBook.curated_names() or given.endswith(".json"):
        return given
    if not Path(given).is_file():
        raise InputError(
            f"--prompts {given} is neither a file nor a curated book; pass a text file, one prompt"
            f" a line, a book's .json file, or one of {', '.join(PromptBook.curated_names())}"
        )
    return read_prompts(Path(given))
