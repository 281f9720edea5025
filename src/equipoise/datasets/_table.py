"""Your own images: a folder with a subfolder per label, or a csv or parquet table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from equipoise._paths import is_utf8
from equipoise.datasets import _files as files
from equipoise.datasets._dataset import Dataset, Frame, Sieve
from equipoise.errors import InputError

PATH_COLUMNS = (
    "path",
    "file",
    "filename",
    "file_name",
    "image",
    "image_path",
    "img_filename",
    "image_id",
    "name",
)
SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"})


def folder(images: files.Where) -> Dataset:
    """Return columns path and label.

    label: the name of the subfolder that an image lies in, "" for images in the folder itself.
    """
    import pandas as pd

    root = files.root_of(
        images, "folder", "Pass a folder of images, or of folders of images named by their label"
    )
    found = sorted(path for path in root.rglob("*") if path.is_file())
    garbled = [path for path in found if not is_utf8(str(path))]
    if garbled:
        raise InputError(
            f"{len(garbled)} file names in {root} are not UTF-8, first {garbled[0].name!r}; rename"
            " them (convmv does it)"
        )
    is_image = [path.suffix.lower() in SUFFIXES for path in found]
    if not any(is_image):
        others = f"; the {len(found):,} files in it are none" if found else ""
        raise InputError(f"{root} holds no images ({', '.join(sorted(SUFFIXES))}){others}")
    labels = [path.parent.relative_to(root).as_posix().removeprefix(".") for path in found]
    sieve = Sieve(pd.DataFrame({"path": [str(path) for path in found], "label": labels}))
    sieve.drop(~pd.Series(is_image, dtype=bool), "files that are no images")
    return sieve.result(str(root), ())


def table(
    source: files.Where,
    *,
    images: files.Where | None = None,
    path_column: str | None = None,
    label_column: str | None = None,
    group_columns: Sequence[str] = (),
    caption_column: str | None = None,
    on_missing: str = "raise",
) -> Dataset:
    """Return the columns asked for, of a csv or parquet file with one row per image.

    They are path, label, caption and the group columns. images: the folder that the file names are
    relative to; the table's own by default. path_column: found by its name (path, file, image, ...)
    when not given. Values that are missing stay missing: metrics leave those rows out and count
    them.
    """
    import pandas as pd

    source = Path(source)
    given = _read(source, path_column)
    if isinstance(group_columns, str):
        raise InputError(
            f"group_columns={group_columns!r} is a string; pass a list of column names,"
            f" [{group_columns!r}]"
        )
    wanted = {"path": path_column or _path_column(given, source)}
    if label_column is not None:
        wanted["label"] = label_column
    if caption_column is not None:
        wanted["caption"] = caption_column
    for name in group_columns:
        wanted[name] = name
    missing = [column for column in wanted.values() if column not in given.columns]
    if missing:
        raise InputError(
            f"{source} has no column {', '.join(missing)}; it has"
            f" {', '.join(map(str, given.columns))}"
        )
    clash = {"path", "label", "caption"} & set(group_columns) - {label_column, caption_column}
    if clash:
        raise InputError(
            f"group columns may not be named {', '.join(sorted(clash))}; rename them in {source}"
        )
    base = Path(images) if images is not None else source.parent
    sieve = Sieve(pd.DataFrame({name: given[column] for name, column in wanted.items()}))
    sieve.drop(sieve.table["path"].isna(), "rows without a file name")
    sieve.table = sieve.table.assign(path=[str(base / str(name)) for name in sieve.table["path"]])
    return sieve.without_missing_files(on_missing).result(source.stem, tuple(group_columns))


def _path_column(table: Frame, source: Path) -> str:
    """Return the column that holds file names, found by its own name."""
    for name in PATH_COLUMNS:
        if name in table.columns:
            return name
    raise InputError(
        f"{source} has no column named {', '.join(PATH_COLUMNS)}; rename the one that holds"
        f" file names, or name it with `path_column`. It has {list(table.columns)}"
    )


def _read(source: Path, path_column: str | None) -> Frame:
    import pandas as pd

    if not source.is_file():
        raise InputError(
            f"{source} is not a file; pass a csv or parquet table with one row per image"
        )
    if source.suffix == ".parquet":
        try:
            return pd.read_parquet(source)
        except (OSError, ValueError) as error:
            raise InputError(f"{source} cannot be read as parquet: {error}") from None
    if not {".csv", ".tsv"} & set(source.suffixes):
        raise InputError(f"{source} is of an unknown kind; pass .csv, .tsv or .parquet")
    # 007 is a file name, not the number 7
    words = dict.fromkeys([*PATH_COLUMNS, path_column or "path"], str)
    separator = "\t" if ".tsv" in source.suffixes else ","
    table = files.csv(source, [], sep=separator, dtype=words)
    if not isinstance(table.index, pd.RangeIndex):
        # pandas took the first columns for names of rows, and moved the others
        raise InputError(
            f"{source} has rows with more fields than its header names; name every column, or"
            " remove what ends each row"
        )
    # whole numbers stay whole where one is missing
    return table.convert_dtypes()
