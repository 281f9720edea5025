"""Write the JSON schema of every file that equipoise writes, and the page that lists them.

Type: python -m scripts.schemas
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel

from equipoise import PromptBook
from equipoise._annotate.documents import Agreement
from equipoise._applying.documents import ApplyManifest
from equipoise._audit.results import AuditDocument
from equipoise._space_document import SpaceMetadata, SpaceSetMetadata
from equipoise._stores.folder import StoreManifest
from equipoise.encoders._head_document import HeadEditMetadata
from equipoise.encoders._onnx import ExportSettings
from equipoise.evaluation import EvaluationRun, SweepResults
from equipoise.generation import DrawingPlan, PictureProvenance
from equipoise.generation._manifest import DrawnPicture
from equipoise.generation._results_document import ChosenPrompts, GenerationResults
from equipoise.generation._steering_document import Steering
from equipoise.methods._operator_document import OperatorMetadata, SpaceSettings
from equipoise.prompts._attribute_document import AttributeFile

FOLDER, PAGE = Path("docs/schemas"), Path("docs/schemas.md")
DIALECT = "https://json-schema.org/draft/2020-12/schema"


class FileKind(NamedTuple):
    """A kind of file: the model of what it holds, and where it comes from."""

    name: str
    model: type[BaseModel]
    file: str
    writer: str


KINDS = (
    FileKind("audit-results", AuditDocument, "`results.json`", "`equipoise audit`"),
    FileKind("prompt-book", PromptBook, "a prompt book", "`equipoise prompts write`"),
    FileKind("run", EvaluationRun, "a run", "`equipoise evaluate`, `equipoise compare`"),
    FileKind("sweep", SweepResults, "`sweep.json`", "`equipoise compare --sweep`"),
    FileKind("store", StoreManifest, "`equipoise.json` of a store", "`equipoise embed`"),
    FileKind("apply", ApplyManifest, "`equipoise-apply.json`", "`equipoise apply`"),
    FileKind("generation-plan", DrawingPlan, "`run.json`", "`equipoise generate`"),
    FileKind(
        "generation-picture", DrawnPicture, "a line of `manifest.jsonl`", "`equipoise generate`"
    ),
    FileKind(
        "generation-provenance",
        PictureProvenance,
        "the text `equipoise` in a PNG",
        "`equipoise generate`",
    ),
    FileKind("generation-steering", Steering, "`pilot/steering.json`", "`equipoise generate`"),
    FileKind("generation-subsets", ChosenPrompts, "`subsets.json`", "`equipoise generate`"),
    FileKind("generation", GenerationResults, "`results.json`", "`equipoise generate`"),
    FileKind("agreement", Agreement, "what is printed", "`equipoise annotate agreement --json`"),
    FileKind("encoder", ExportSettings, "`encoder.json`", "`equipoise.encoders.export_onnx`"),
    FileKind("attribute", AttributeFile, "the TOML file of an attribute", "people, by hand"),
    FileKind(
        "attribute-space",
        SpaceMetadata,
        "the text `equipoise` in the metadata of an attribute space",
        "`equipoise fit`, `AttributeSpace.save`",
    ),
    FileKind(
        "space-set",
        SpaceSetMetadata,
        "the same of a space set",
        '`equipoise fit --scope "per prompt"`, `SpaceSet.save`',
    ),
    FileKind(
        "operator",
        OperatorMetadata,
        "the same of an operator",
        "`equipoise fit --method`, `Operator.save`",
    ),
    FileKind(
        "head-edit",
        HeadEditMetadata,
        "the same of edited attention heads",
        "`equipoise.encoders.HeadEdit.save`",
    ),
    FileKind(
        "space-settings",
        SpaceSettings,
        "`settings` of the operators of closed-form, adapted and others in a space",
        "`equipoise fit --method`, `Operator.save`",
    ),
)

TEXT = """# The schemas of files

Every JSON document that equipoise writes, and the TOML file of an attribute, has a model in the package and a [JSON schema](https://json-schema.org) here. `python -m scripts.schemas` writes the schemas and this page, and a test
compares them with the models.

| file | written by | schema |
|---|---|---|
{rows}

Rules for all of them:

- **Fields that are not known are ignored**, so that a file of a later version with the same format number can be read. A prompt book and the tables of an attribute's
  groups are written by hand, and `encoder.json` decides what a model computes, so these refuse them: a misspelt field would be lost without a word.
- A file whose `format` is newer than this equipoise says so, before anything else is checked.
- A file that does not follow its schema is refused. The error names the file, the field, what it holds and what is legal.
- A field that a model gives no value for is absent, unless the schema says that it may be null.
"""


def schema(kind: FileKind) -> str:
    """Return the text of a kind's schema."""
    found = {"$schema": DIALECT, **kind.model.model_json_schema()}
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def page() -> str:
    """Return the page that lists the schemas."""
    rows = []
    for kind in KINDS:
        link = f"[{kind.name}.schema.json](schemas/{kind.name}.schema.json)"
        rows.append(f"| {kind.file} | {kind.writer} | {link} |")
    return TEXT.format(rows="\n".join(rows))


def files() -> dict[Path, str]:
    """Return every file and its text."""
    found = {FOLDER / f"{kind.name}.schema.json": schema(kind) for kind in KINDS}
    return found | {PAGE: page()}


def main() -> None:
    """Write the schemas and the page."""
    FOLDER.mkdir(exist_ok=True)
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
