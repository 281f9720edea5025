"""UTKFace: faces whose file names say age, gender and race."""

from __future__ import annotations

import re

from equipoise.datasets import _files as files
from equipoise.datasets._dataset import Dataset, Sieve
from equipoise.errors import InputError

DOWNLOAD = (
    "Download UTKFace (susanqq.github.io/UTKFace): a folder of files such as"
    " 25_0_1_20170116174525125.jpg.chip.jpg"
)
GENDERS = ("male", "female")
RACES = ("White", "Black", "Asian", "Indian", "Others")
_NAME = re.compile(r"(\d{1,3})_([01])_([0-4])_\d+\.jpg(\.chip\.jpg)?$")


def utkface(root: files.Where, *, on_missing: str = "raise") -> Dataset:
    """Return columns path, years, gender (male, female), race.

    The files themselves say everything, so none can be missing: on_missing is here because every
    reader takes it. A few names of the distribution lack a part; those are dropped and counted.
    """
    import pandas as pd

    folder = files.root_of(root, "UTKFace", DOWNLOAD)
    names = sorted(path.relative_to(folder) for path in folder.rglob("*.jpg"))
    if not names:
        raise InputError(f"UTKFace: no jpg file is in {folder}. {DOWNLOAD}")
    found = [_NAME.match(name.name) for name in names]
    sieve = Sieve(pd.DataFrame({"path": [str(folder / name) for name in names], "match": found}))
    sieve.drop(sieve.table["match"].isna(), "named otherwise than age_gender_race_date.jpg")
    parts = [match.groups() for match in sieve.table["match"]]
    columns = {
        "path": sieve.table["path"],
        "years": [int(age) for age, *_ in parts],
        "gender": [GENDERS[int(gender)] for _, gender, *_ in parts],
        "race": [RACES[int(race)] for _, _, race, _ in parts],
    }
    sieve.table = pd.DataFrame(columns)
    return sieve.without_missing_files(on_missing).result("UTKFace", ("gender", "race"))
