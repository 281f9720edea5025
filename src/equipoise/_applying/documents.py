"""What ``apply`` writes: its manifest, the lines of its journals, and the certificate in them."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import ConfigDict, Field, RootModel, SerializerFunctionWrapHandler, model_serializer

from equipoise._documents import Document, FreeValue
from equipoise._engines.shard import Done, WholeTotals
from equipoise._engines.transform import Modality, TransformIdentity
from equipoise._space import EncoderRef
from equipoise._stores.layout import SourceFile
from equipoise._version import __version__

FORMAT = 1


class Run(Document):
    """What a run does: the same run gives the same bytes. It is the first line of a journal."""

    format: int = FORMAT
    version: str = __version__
    source: str
    transform: TransformIdentity
    encoder: EncoderRef
    files: list[SourceFile]

    def differs_from(self, other: Run) -> list[str]:
        """Return the names of the fields that differ, but for the source, which may have moved."""
        names = [name for name in Run.model_fields if name != "source"]
        return [name for name in names if getattr(self, name) != getattr(other, name)]


class TallySummary(Document):
    """One quantity over all rows."""

    mean: float
    median: float
    p95: float
    max: float


class TheoryDifference(Document):
    """How far the rows are from what the theory gives for them, at most."""

    leakage: float
    self_loss: float


class CertificateSummary(Document):
    """The certificate of all rows of one modality; without a space, only counts are known.

    What else a run knows of itself, such as its encoder, stands beside these fields.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")

    n: int
    invalid: int = Field(description="Rows without a direction.")
    pure_attribute: int | None = Field(
        default=None, description="Rows of which the space leaves nothing; they stay as they are."
    )
    leakage_before: TallySummary | None = None
    leakage: TallySummary | None = None
    self_loss: TallySummary | None = None
    group_gap_bound: float | None = None
    differs_from_theory_by: TheoryDifference | None = None
    length_error: float | None = None

    @model_serializer(mode="wrap")
    def _known(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in written(self).items() if value is not None}


class ApplyManifest(Run):
    """What equipoise-apply.json holds, written when all pieces are done.

    Each piece has its rows, checksum and certificate histograms; certificate is the merged one.
    """

    shards: list[Done]
    certificate: dict[str, CertificateSummary] = Field(description="By modality.")


class ColumnRun(TransformIdentity):
    """What a run on a column of PostgreSQL does, as its table of notes has it."""

    column: str
    key: str
    modality: Modality


class BatchNote(RootModel[WholeTotals]):
    """The totals of a batch of rows that is in the table."""


class LanceRun(TransformIdentity):
    """What a run on a Lance table does: the first line of its journal."""

    column: str
    modality: Modality
    version: int = Field(description="Of the table, when the run began.")


class LancePart(Document):
    """A fragment that is written and waits for the commit: a line of the journal."""

    id: int
    fragment: FreeValue = Field(description="Lance's own metadata of the fragment.")
    totals: WholeTotals


class CollectionRun(TransformIdentity):
    """What a run on a collection of a vector database does: the first line of its journal."""

    collection: str
    vector: str
    modality: Modality
    rows: int = Field(description="Of the collection, when the run began.")


class CollectionPart(Document):
    """A batch of rows that is in the new collection: a line of the journal."""

    rows: int
    next: int | str | None = Field(description="Where the next batch begins; null: nowhere.")
    totals: WholeTotals
