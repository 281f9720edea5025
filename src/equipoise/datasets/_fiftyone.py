"""FiftyOne: the samples of a dataset, or of a folder that it exported as FiftyOneDataset."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from equipoise._paths import is_below
from equipoise.datasets import _files as files
from equipoise.datasets._dataset import Dataset, Sieve
from equipoise.errors import InputError

EXPORT = (
    "Write one with dataset.export(export_dir=..., dataset_type=fiftyone.types.FiftyOneDataset)"
)
OURS = ("filepath", "tags", "metadata", "id", "created_at", "last_modified_at")
PLAIN = str | bool | int | float


def fiftyone(
    source: Any,
    *,
    label_field: str | None = None,
    group_fields: Sequence[str] = (),
    on_missing: str = "raise",
) -> Dataset:
    """Return path, id, and a column for each field that holds one label or value per sample.

    source: a folder that FiftyOne exported, or its own dataset or view. A field of Classification
    gives its label, and its confidence in a column FIELD_confidence. label_field: the field that is
    the column label too.
    """
    import pandas as pd

    if isinstance(group_fields, str):
        raise InputError(
            f"group_fields={group_fields!r} is a string; pass a list of names, [{group_fields!r}]"
        )
    name, samples = _samples(source)
    rows = [_row(sample) for sample in samples]
    known = {column for row in rows for column in row}
    _require(known, [*group_fields, *([label_field] if label_field else [])], samples, name)
    sieve = Sieve(pd.DataFrame(rows, columns=sorted(known, key=_path_first)))
    if label_field is not None:
        sieve.table = sieve.table.assign(label=sieve.table[label_field])
    media = [sample.get("_media_type", "image") for sample in samples]
    sieve.drop(pd.Series([kind != "image" for kind in media], dtype=bool), "not images")
    return sieve.without_missing_files(on_missing).result(name, tuple(group_fields))


def _path_first(column: str) -> tuple[bool, str]:
    return column != "path", column


def _samples(source: Any) -> tuple[str, list[dict[str, Any]]]:
    """Return the name, and each sample as FiftyOne writes it, with the place of its file."""
    if hasattr(source, "iter_samples"):
        found = [_of_live(sample) for sample in source.iter_samples()]
        return str(source.name or "FiftyOne"), found
    folder = files.root_of(source, "FiftyOne", EXPORT)
    path = next((folder / name for name in ("samples.json", "samples") if _is(folder, name)), None)
    if path is None:
        raise InputError(f"FiftyOne: {folder} has no samples.json. {EXPORT}")
    documents = [_document(path)] if path.is_file() else map(_document, sorted(path.glob("*.json")))
    found = [sample for document in documents for sample in _listed(document, path)]
    for sample in found:
        sample["path"] = _place(folder, sample.get("filepath"), path)
    return folder.name, found


def _is(folder: Path, name: str) -> bool:
    return (folder / name).exists()


def _of_live(sample: Any) -> dict[str, Any]:
    known = {"path": sample.filepath, "_id": {"$oid": sample.id}}
    return sample.to_dict() | known | {"_media_type": sample.media_type}


def _document(path: Path) -> Any:
    try:
        return json.loads(files.text(path))
    except ValueError as error:
        raise InputError(f"{path} is not JSON ({error}); export the dataset again") from None


def _listed(document: Any, path: Path) -> Iterable[dict[str, Any]]:
    """Return the samples of a file: all of them, or the one of a folder of files."""
    found = document.get("samples", [document]) if isinstance(document, dict) else None
    if isinstance(found, list) and all(isinstance(sample, dict) for sample in found):
        return found
    raise InputError(f"{path} holds no list of samples. {EXPORT}")


def _place(folder: Path, name: Any, path: Path) -> str:
    """Return where a sample's file is; names are relative where the files were exported too."""
    if isinstance(name, str) and Path(name).is_absolute():
        return name
    if not isinstance(name, str) or not is_below(name):
        raise InputError(f"{path} names a file {name!r}, which is not inside {folder}")
    return str(folder / name)


def _row(sample: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a sample that are one each; what is missing stays missing."""
    found = sample.get("_id")
    row: dict[str, Any] = {"path": sample["path"]}
    row["id"] = found.get("$oid") if isinstance(found, dict) else None
    for field, value in sample.items():
        if field in OURS or field in row or field.startswith("_"):
            continue
        if value is None or isinstance(value, PLAIN):
            row[field] = value
        elif isinstance(value, dict) and value.get("_cls") == "Classification":
            row[field] = value.get("label")
            if value.get("confidence") is not None:
                row[f"{field}_confidence"] = value["confidence"]
    return row


def _require(
    known: set[str], wanted: Sequence[str], samples: list[dict[str, Any]], name: str
) -> None:
    """Raise for fields that do not exist, or hold other than one value per sample."""
    for field in wanted:
        if field in known:
            continue
        held = [sample[field] for sample in samples if field in sample]
        kinds = {one.get("_cls", "object") if isinstance(one, dict) else "list" for one in held}
        legal = ", ".join(sorted(known - {"path", "id"}))
        what = f"{field!r} of {name} is of {', '.join(sorted(kinds))}" if held else ""
        raise InputError(
            f"{what or f'{name} has no field {field!r}'}; pass a field with one Classification or"
            f" plain value per sample: {legal}"
        )
