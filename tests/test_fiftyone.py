"""FiftyOne itself, in an environment of its own (make test-fiftyone): labels read, predictions and skew written, an export read back."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from PIL import Image

import equipoise as eq
from tests.helpers.common import ROOT, embedded_model

pytestmark = pytest.mark.fiftyone

CLASSES = ["doctor", "nurse"]


@pytest.fixture(scope="module")
def fo(tmp_path_factory):
    """The package, with a database of its own that ends with the tests."""
    patch = pytest.MonkeyPatch()
    folder = tmp_path_factory.mktemp("fiftyone")
    patch.setenv("FIFTYONE_DATABASE_DIR", str(folder / "mongo"))
    patch.setenv("FIFTYONE_CONFIG_PATH", str(folder / "config.json"))
    patch.setenv("FIFTYONE_DO_NOT_TRACK", "true")
    yield pytest.importorskip("fiftyone")
    patch.undo()


@pytest.fixture
def dataset(fo, tmp_path, rng):
    """Twelve pictures: groups as strings, labels as Classification, boxes, and one sample without a label."""
    samples = []
    for i in range(12):
        path = tmp_path / f"{i:02d}.png"
        Image.fromarray(rng.integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(path)
        sample = fo.Sample(filepath=str(path), tags=["test"])
        sample["gender"] = "female" if i % 3 else "male"
        sample["ground_truth"] = fo.Classification(label=CLASSES[i % 2]) if i else None
        sample["boxes"] = fo.Detections(
            detections=[fo.Detection(label="person", bounding_box=[0, 0, 1, 1])]
        )
        samples.append(sample)
    found = fo.Dataset()
    found.add_samples(samples, progress=False)
    yield found
    found.delete()


def test_labels_and_groups_are_read(dataset):
    data = eq.datasets.fiftyone(dataset, label_field="ground_truth", group_fields=["gender"])
    assert data.kept == 12 and data.groups == ("gender",)
    assert data.table["path"].tolist() == dataset.values("filepath")
    assert data.table["id"].tolist() == dataset.values("id")
    assert data.table["label"].tolist()[1:] == dataset.values("ground_truth.label")[1:]
    assert data.table["label"].isna().tolist() == [True] + [False] * 11
    assert "boxes" not in data.table
    with pytest.raises(eq.EquipoiseError, match=r"'boxes' of .* is of Detections; pass a field"):
        eq.datasets.fiftyone(dataset, label_field="boxes")


def test_an_export_holds_what_the_dataset_held(fo, dataset, tmp_path):
    folder = tmp_path / "export"
    kind = fo.types.FiftyOneDataset
    dataset.export(str(folder), dataset_type=kind, progress=False)
    before = eq.datasets.fiftyone(dataset, label_field="ground_truth", group_fields=["gender"])
    after = eq.datasets.fiftyone(folder, label_field="ground_truth", group_fields=["gender"])
    columns = ["gender", "label", "id", "ground_truth"]
    assert after.table[columns].equals(before.table[columns])
    assert set(after.table.columns) == set(before.table.columns)
    assert after.table["path"].str.startswith(str(folder / "data")).all()
    files = tmp_path / "files"
    dataset.export(str(files), dataset_type=kind, use_dirs=True, progress=False)
    again = eq.datasets.fiftyone(files, label_field="ground_truth", group_fields=["gender"])
    assert again.table[columns].equals(before.table[columns])
    plain = tmp_path / "plain"
    dataset.export(str(plain), dataset_type=kind, export_media=False, progress=False)
    there = eq.datasets.fiftyone(plain).table["path"]
    assert there.tolist() == dataset.values("filepath")


def test_predictions_are_a_field(fo, dataset):
    from equipoise.fiftyone import add_predictions

    encoder = embedded_model()
    add_predictions(dataset, encoder, CLASSES, field="plain")
    images = encoder.encode_images(dataset.values("filepath"))
    texts = encoder.encode_text([f"a photo of a {name}" for name in CLASSES])
    scores = 100 * images @ texts.T
    assert dataset.values("plain.label") == [CLASSES[i] for i in scores.argmax(axis=1)]
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(dataset.values("plain.confidence"), chances.max(axis=1), rtol=1e-5)
    with pytest.raises(eq.EquipoiseError, match="are not two or more"):
        add_predictions(dataset, encoder, "doctor")


def test_skew_is_a_field(dataset):
    from equipoise.fiftyone import add_skew

    table = add_skew(dataset, "ground_truth", "gender")
    labels, groups = dataset.values("ground_truth.label"), dataset.values("gender")
    known = [i for i in range(12) if labels[i] is not None]
    for i in known:
        there = [groups[j] for j in known if labels[j] == labels[i]]
        share = there.count(groups[i]) / len(there)
        whole = sum(groups[j] == groups[i] for j in known) / len(known)
        assert dataset.values("skew")[i] == pytest.approx(math.log(share / whole))
        assert table[labels[i]][groups[i]] == dataset.values("skew")[i]
    assert dataset.values("skew")[0] is None
    with pytest.raises(eq.EquipoiseError, match=r"has no field 'sex'; it has .*gender"):
        add_skew(dataset, "ground_truth", "sex")
    scores = np.array([[label == name for label in labels[1:]] for name in CLASSES], float)
    for name, row in zip(CLASSES, scores, strict=True):
        expected = eq.metrics.max_skew(row[None], sensitive_features=groups[1:], m=int(row.sum()))
        assert max(table[name].values()) == pytest.approx(expected)


def test_the_page_runs(dataset, tmp_path, monkeypatch):
    embedded_model()
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "integrations" / "fiftyone.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.S)
    names = {"dataset": dataset}
    exec(compile(block, "fiftyone.md", "exec"), names)
    assert set(dataset.values("fair.label")) <= set(CLASSES)
    assert names["data"].kept == 12
