"""eq.datasets.fiftyone without FiftyOne: an export that FiftyOne 1.22.1 itself wrote, and files that are none."""

from __future__ import annotations

import json
import shutil

import pytest

import equipoise as eq
from tests.helpers.common import ROOT

REAL = ROOT / "tests" / "datasets" / "files" / "fiftyone"


def test_an_export_of_the_real_package():
    """Five samples: labels, predictions with confidences, groups and boxes; one has no label."""
    data = eq.datasets.fiftyone(
        REAL, label_field="ground_truth", group_fields=["gender"], on_missing="keep"
    )
    table = data.table
    assert data.groups == ("gender",) and data.dropped == {"not images": 0}
    assert table["path"].tolist() == [str(REAL / "data" / f"{i}.jpg") for i in range(5)]
    assert table["gender"].tolist() == ["female", "male", "female", "male", "female"]
    assert table["label"].tolist()[:4] == ["doctor", "nurse", "doctor", "nurse"]
    assert table["label"].isna().tolist() == [False, False, False, False, True]
    assert table["predictions"].tolist() == ["nurse"] * 4 + ["doctor"]
    assert table["predictions_confidence"].tolist() == [0.5, 0.6, 0.7, 0.8, 0.9]
    assert table["id"].str.fullmatch("[0-9a-f]{24}").all()
    assert "boxes" not in table.columns and "tags" not in table.columns
    with pytest.raises(eq.EquipoiseError, match=r"'boxes' of fiftyone is of Detections; pass a"):
        eq.datasets.fiftyone(REAL, group_fields=["boxes"], on_missing="keep")


@pytest.fixture
def export(tmp_path):
    shutil.copytree(REAL, tmp_path / "export")
    return tmp_path / "export"


def changed(export, change):
    document = json.loads((export / "samples.json").read_text())
    change(document)
    (export / "samples.json").write_text(json.dumps(document))


def test_what_is_typed_wrong_is_answered(export, tmp_path):
    for given, options, message in [
        (tmp_path / "none", {}, r"is not a folder\. Write one with dataset\.export"),
        (tmp_path, {}, r"has no samples\.json"),
        (export, {"label_field": "job"}, "has no field 'job'; pass a field with one .*gender"),
        (export, {"group_fields": "gender"}, "is a string; pass a list"),
        (export, {}, "5 of 5 images are missing"),
    ]:
        with pytest.raises(eq.EquipoiseError, match=message):
            eq.datasets.fiftyone(given, **options)


def test_what_is_no_image_is_dropped_and_counted(export):
    changed(export, lambda document: document["samples"][0].update(_media_type="video"))
    data = eq.datasets.fiftyone(export, on_missing="keep")
    assert data.kept == 4 and data.dropped == {"not images": 1}


def test_files_that_are_no_exports(export):
    changed(export, lambda document: document["samples"][0].update(filepath="../secret.jpg"))
    with pytest.raises(eq.EquipoiseError, match=r"names a file '\.\./secret\.jpg', which is not"):
        eq.datasets.fiftyone(export, on_missing="keep")
    (export / "samples.json").write_text('{"samples": [1, 2]}')
    with pytest.raises(eq.EquipoiseError, match="holds no list of samples"):
        eq.datasets.fiftyone(export)
    (export / "samples.json").write_text('{"samples": [')
    with pytest.raises(eq.EquipoiseError, match="is not JSON"):
        eq.datasets.fiftyone(export)
