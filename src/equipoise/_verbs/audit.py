"""``eq.audit``: from a model and photographs to one document of results, its page and its files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise import _artefact as artefact
from equipoise import _audit
from equipoise._audit.documents import RESULTS, Pictures
from equipoise._audit.embedded_gallery import find_gallery, judged, read_gallery
from equipoise._audit.plan import AuditPlan, AuditSettings, columns_for, make_plan
from equipoise._audit.record import AuditOrder
from equipoise._audit.results import AuditDocument
from equipoise._audit.sources import ImageSource, holds_embeddings, read_images
from equipoise._paths import path_of
from equipoise._space import AttributeSpace, check_options
from equipoise._verbs.destinations import require_free_folder
from equipoise._verbs.hand_over import AuditedIndex, hand_over
from equipoise._verbs.models import MINI, check_encoder_options, open_encoder
from equipoise.datasets._checks import attribute_of
from equipoise.errors import InputError
from equipoise.methods import Operator
from equipoise.methods._specs import parse
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._book_writers import read_prompts
from equipoise.prompts._prompt_book import PromptBook

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

GALLERY, NONE = "gallery", "none"  # in place of a path: the embedded pictures; texts only
REPORT, SPACE, CARD = "report.html", "space.safetensors", "model-card.md"
IMAGES = "images.csv"


@dataclass(frozen=True)
class AuditResults:
    """What an audit found: the document, pictures for its page, and the fitted operators.

    images: the list of the images, as csv. index: where their rows are.
    """

    document: AuditDocument
    pictures: Pictures
    space: AttributeSpace
    operators: dict[str, Operator]
    images: str | None = None
    index: AuditedIndex = field(default_factory=AuditedIndex)

    @cached_property
    def results(self) -> dict[str, Any]:
        """Return the document in JSON's own types."""
        return self.document.to_plain()

    def page(self) -> str:
        """Return the report as one self-contained HTML page."""
        from equipoise.report import page

        return page(self.document, self.pictures)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the results, the page, the model card and an operator per method into a folder."""
        self.handed_over(Path(folder))

    def handed_over(self, folder: Path) -> AuditResults:
        """Write all files, and return the results with the lines that put them to use."""
        from equipoise.report import model_card

        document = hand_over(self.document, self.operators, self.index, folder)
        if self.images is not None:
            artefact.write_atomically(folder / IMAGES, self.images.encode())
            kept = document.record.model_copy(update={"images_file": IMAGES})
            document = document.model_copy(update={"record": kept})
        written = replace(self, document=document)
        _audit.write(folder, document, self.pictures)
        self.space.save(folder / SPACE)
        artefact.write_atomically(folder / CARD, model_card(document).encode())
        artefact.write_atomically(folder / REPORT, written.page().encode())
        return written

    def to_frame(self) -> pd.DataFrame:
        """Return the summary: one row per metric and method, with its interval.

        difference: from ``none``, on the same resamples.
        """
        import pandas as pd

        rows = []
        for metric in self.document.summary:
            for method, found in zip(self.document.methods, metric.values, strict=True):
                row = {
                    "metric": metric.key,
                    "name": metric.name,
                    "n": metric.n,
                    "method": method.label,
                    "value": found.value,
                    "low": found.low,
                    "high": found.high,
                    "difference": None if found.change is None else found.change.value,
                }
                rows.append(row)
        return pd.DataFrame(rows)

    def plot(self, metric: str | None = None, axes: Any = None) -> Any:
        """Draw a metric of each method with its interval; return matplotlib's axes.

        metric: a key of ``to_frame()``; by default the one that the verdict is about.
        """
        import numpy as np

        from equipoise import _plots as plots

        summary = self.document.summary
        known = [row.key for row in summary]
        if metric is None:
            metric = known[self.document.verdict.row]
        if metric not in known:
            raise InputError(f"there is no metric {metric!r}; there are {', '.join(known)}")
        row = summary[known.index(metric)]
        values = []
        for found in row.values:
            numbers = [found.value, found.low, found.high]
            values.append(tuple(np.array(numbers, float)))  # None is NaN, which is not drawn
        labels = [method.label for method in self.document.methods]
        label = f"{row.name} (n={row.n:,}, 95 % intervals)"
        return plots.draw_intervals(axes, labels, values, "", label)

    def __repr__(self) -> str:
        from equipoise.report import headline

        methods = ", ".join(method.label for method in self.document.methods)
        return f"AuditResults({headline(self.document)!r}, methods: {methods})"

    def _repr_html_(self) -> str:
        from html import escape

        from equipoise.report import headline

        table = self.to_frame().to_html(index=False, escape=True, float_format="{:.4f}".format)
        return f"<p><strong>{escape(headline(self.document))}</strong></p>{table}"


@dataclass(frozen=True)
class AuditRequest:
    """What to audit, by names and files. ``eq.audit`` says what each means."""

    images: Path | None = None
    model: str | None = None
    vectors: Path | None = None
    embeddings: Path | None = None
    root: Path | None = None
    attributes: Sequence[str] = ()
    group_columns: Sequence[str] = ()
    label_column: str | None = None
    caption_column: str | None = None
    prompts: str | Sequence[str] | None = None
    book: str | None = None
    methods: Sequence[str] = ()
    kappa: float | None = None

    def index(self, rows: np.ndarray | None) -> AuditedIndex:
        """Return where the audited rows are. rows: those that the audit encoded."""
        model = None if self.vectors is not None else self.model or MINI
        path = self.embeddings
        if path is None and self.images is not None and holds_embeddings(self.images):
            path = self.images
        return AuditedIndex(model, path, None if path is not None else rows)

    def plans(self, settings: AuditSettings, **encoder_options: Any) -> list[AuditPlan]:
        """Return a plan per attribute. The model is loaded last, because it takes longest."""
        if self.kappa is not None:
            check_options(kappa=self.kappa)
        specs = parse(self.methods) if self.methods else None
        attributes = self._attributes()
        prompts = _read_prompts(self.prompts)
        source = self._source()
        given = self._given_for_images()
        if source is None and given:
            raise InputError(f"`{given}` is about images, and there are none; pass `images`")
        encoder = open_encoder(self.model, self.vectors, default=MINI, **encoder_options)
        plans = []
        for attribute in attributes:
            plan = make_plan(
                encoder,
                attribute,
                prompts=prompts,
                book=self.book,
                specs=specs,
                kappa=self.kappa,
                source=source,
                group_columns=self._columns(attribute, source),
                label_column=self.label_column,
                caption_column=self.caption_column,
                settings=settings,
            )
            plans.append(plan)
        return plans

    def _attributes(self) -> list[Attribute]:
        """Return those named, or the one that the group columns name, or gender."""
        if not self.attributes:
            if self.group_columns:
                return [attribute_of(self.group_columns)]
            return [Attribute.load("gender")]
        attributes = [Attribute.load(name) for name in self.attributes]
        names = [attribute.name for attribute in attributes]
        if len(set(names)) < len(names):
            raise InputError(f"an attribute was named twice: {names}; name each once")
        return attributes

    def _source(self) -> ImageSource | None:
        """Return the photographs that are named; for mini alone, the gallery that comes with it."""
        columns: dict[str, Any] = {
            "label_column": self.label_column,
            "caption_column": self.caption_column,
            "group_columns": self.group_columns,
        }
        if self.images is None:
            mini_alone = self.model in (None, MINI) and not (self.vectors or self.embeddings)
            found = find_gallery() if mini_alone else None
            return None if found is None else read_gallery(found, **columns)
        if not self.images.exists() and str(self.images) == NONE:
            return None
        if not self.images.exists() and str(self.images) == GALLERY:
            return read_gallery(find_gallery(), self.embeddings, **columns)
        return read_images(self.images, self.embeddings, root=self.root, **columns)

    def _columns(self, attribute: Attribute, source: ImageSource | None) -> tuple[str, ...]:
        drawn = source is not None and source.generated is not None
        if drawn and not self.group_columns:
            return judged(attribute)
        return columns_for(attribute, self.group_columns)

    def _given_for_images(self) -> str:
        """Return the first parameter that was given and is about images, or ""."""
        for name in ("embeddings", "group_columns", "label_column", "caption_column"):
            if getattr(self, name):
                return name
        return ""


def audit(
    images: str | os.PathLike[str] | None = None,
    *,
    model: str | None = None,
    attribute: str = "gender",
    prompts: str | Sequence[str] | None = None,
    methods: Sequence[str] = (),
    kappa: float | None = None,
    out: str | os.PathLike[str] | None = None,
    force: bool = False,
    book: str | None = None,
    vectors: str | os.PathLike[str] | None = None,
    embeddings: str | os.PathLike[str] | None = None,
    root: str | os.PathLike[str] | None = None,
    group_columns: Sequence[str] = (),
    label_column: str | None = None,
    caption_column: str | None = None,
    pictures: bool = True,
    settings: AuditSettings | None = None,
    organisation: str | None = None,
    auditor: str | None = None,
    purpose: str | None = None,
    **encoder_options: Any,
) -> AuditResults:
    """Measure how far a model leans to groups, before and after debiasing.

    images: a folder, a .csv or .parquet table, a store or a .npy file; "gallery" for the drawn
    people that come with mini, which is the default; "none" for texts only. model: as
    ``load_encoder`` takes it; mini by default. prompts: a list, a text file with one prompt per
    line, or a prompt book. methods: "closed-form", "adapted:kappa=inf", ... out: a folder to write
    the page and its files to. organisation, auditor, purpose: for the record, in your own words.
    encoder_options: device, dtype, batch_size, workers, offline.

    Returns an ``AuditResults``: ``save`` it, show its ``page``, or turn it into a DataFrame.
    """
    check_encoder_options(audit, encoder_options)
    if out is not None:
        require_free_folder(Path(out), force, RESULTS)
    _check_lists(attribute, group_columns)
    request = AuditRequest(
        images=None if images is None else path_of(images, "images"),
        model=model,
        vectors=_path(vectors),
        embeddings=_path(embeddings),
        root=_path(root),
        attributes=(attribute,),
        group_columns=tuple(group_columns),
        label_column=label_column,
        caption_column=caption_column,
        prompts=prompts,
        book=book,
        methods=methods if isinstance(methods, str) else tuple(methods),
        kappa=kappa,
    )
    [plan] = request.plans(settings or AuditSettings(), **encoder_options)
    order = AuditOrder(organisation, auditor, purpose, _call(request))
    found = run_plan(plan, request, pictures, order)
    if out is not None:
        return found.handed_over(Path(out))
    return found


def _check_lists(attribute: Any, group_columns: Any) -> None:
    """Raise where one was given for a list, or a list for one."""
    if isinstance(attribute, list | tuple):
        raise InputError(
            f"attribute={attribute!r} is a list; pass one name, and join several with &:"
            " 'gender & age'"
        )
    if isinstance(group_columns, str):
        raise InputError(
            f"group_columns={group_columns!r} is a string; pass a list of column names,"
            f" [{group_columns!r}]"
        )


def _call(request: AuditRequest) -> str:
    """Return the call that makes this audit again."""
    given = []
    for name, value in vars(request).items():
        if value is not None and value != ():
            given.append(f"{name}={str(value) if isinstance(value, Path) else value!r}")
    return f"equipoise.audit({', '.join(given)})"


def run_plan(
    plan: AuditPlan,
    request: AuditRequest | None = None,
    pictures: bool = True,
    order: AuditOrder | None = None,
) -> AuditResults:
    """Measure one plan. pictures: whether copies of pictures, and their rows, may be kept."""
    found = _audit.run(plan, pictures=pictures, order=order)
    index = AuditedIndex()
    if request is not None:
        index = request.index(found.rows if pictures else None)
    return AuditResults(
        found.document, found.pictures, found.space, found.operators, found.images, index
    )


def run_plans(
    plans: Sequence[AuditPlan],
    out: Path,
    pictures: bool,
    request: AuditRequest | None = None,
    order: AuditOrder | None = None,
) -> list[tuple[Path, AuditResults]]:
    """Run each plan and write its files; several get a folder each and a comparison page."""
    from equipoise.report import comparison

    found = []
    for plan in plans:
        folder = out if len(plans) == 1 else out / _folder_name(plan.attribute)
        results = run_plan(plan, request, pictures, order)
        found.append((folder, results.handed_over(folder)))
    if len(found) > 1:
        named = [(folder.name, results.document) for folder, results in found]
        artefact.write_atomically(out / REPORT, comparison(named).encode())
    return found


def _folder_name(attribute: Attribute) -> str:
    return attribute.name.replace(" & ", "-").replace(" ", "-")


def _path(given: str | os.PathLike[str] | None) -> Path | None:
    return None if given is None else Path(given)


def _read_prompts(given: str | Sequence[str] | None) -> list[str] | str | None:
    """Return a list of prompts, or the name of the book whose prompts are meant."""
    if given is None or not isinstance(given, str):
        return None if given is None else list(given)
    if given in PromptBook.curated_names() or given.endswith(".json"):
        return given
    if not Path(given).is_file():
        raise InputError(
            f"prompts={given!r} is neither a file nor a curated book; pass a list of prompts,"
            " a text file with one prompt per line, the .json file of a book, or one of"
            f" {', '.join(PromptBook.curated_names())}"
        )
    return read_prompts(Path(given))
