"""LTC's edit of attention heads, on a small real CLIP: the parts are a row, and edited parts are their mean."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import equipoise as eq
from equipoise.encoders import HeadEdit
from equipoise.encoders import _head_locating as locating
from equipoise.evaluation import Evaluation, Settings
from tests.helpers import models
from tests.helpers.common import component, unit

torch = component("torch")
transformers = component("transformers")
Image = component("PIL.Image")

LAYERS, HEADS = 2, 4  # of tests/helpers/models.py
EVERY = [(layer, head) for layer in range(LAYERS) for head in range(HEADS)]
ROUNDING = 1e-6  # float32, a sum of as many parts as there are heads
CLASSES = {"doctor": "a photo of a doctor", "nurse": "a photo of a nurse"}
GROUPS = {"man": "a man", "woman": "a woman"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return models.clip(tmp_path_factory.mktemp("models") / "clip")


@pytest.fixture(scope="module")
def encoder(folder):
    return eq.load_encoder(f"hf:{folder}", workers=0)


@pytest.fixture(scope="module")
def pictures():
    rng = np.random.default_rng(0)
    return [
        Image.fromarray(rng.integers(0, 256, (40 + i % 5, 36, 3), dtype=np.uint8))
        for i in range(40)
    ]


@pytest.fixture(scope="module")
def taken_apart(encoder, pictures):
    """Rows (n, dim), and what each head adds to them (n, heads, dim)."""
    return parts_of(encoder, pictures)


def parts_of(encoder, pictures):
    from equipoise.encoders._head_module import HeadParts

    module = HeadParts(encoder.towers.module)
    pixels = torch.from_numpy(np.stack([encoder.towers.preprocess(one) for one in pictures]))
    with torch.inference_mode():
        rows, parts = module.rows_and_parts(EVERY, pixels)
    return rows.numpy(), parts.numpy()


def answers(encoder, pictures, prompts):
    """The nearest of some prompts to each picture."""
    scores = encoder.encode_images(pictures) @ encoder.encode_text(list(prompts.values())).T
    return np.array(list(prompts))[scores.argmax(1)]


def test_heads_perceptrons_and_the_embedding_add_up_to_the_row(folder):
    """The theorem, in float64; the rest of the tower is read by hooks of the test's own."""
    from equipoise.encoders._head_module import HeadParts
    from equipoise.encoders._hf import _Features

    model = transformers.CLIPModel.from_pretrained(folder).double().eval()
    rest = []
    vision = model.vision_model
    kept = [vision.pre_layrnorm, *(layer.mlp for layer in vision.encoder.layers)]
    for part in kept:
        part.register_forward_hook(lambda module, given, out: rest.append(out[:, 0]))
    norm, pooled = vision.post_layernorm, []
    norm.register_forward_pre_hook(lambda module, given: pooled.append(given[0]))
    module = HeadParts(_Features(model, None))
    pixels = torch.randn(5, 3, 32, 32, dtype=torch.float64)
    with torch.inference_mode():
        rows, parts = module.rows_and_parts(EVERY, pixels)
        vision(pixel_values=pixels)
        others = torch.stack(rest[-len(kept) :])
        last = pooled[-1]
        spread = (last.var(-1, keepdim=True, correction=0) + norm.eps).sqrt()
        share = len(kept) / (2 * LAYERS + 1)
        normed = (others.sum(0) - share * last.mean(-1, keepdim=True)) / spread
        added = model.visual_projection(normed * norm.weight + share * norm.bias)
        whole = model.visual_projection(norm(last))
        expected = whole / whole.norm(dim=-1, keepdim=True)
        found = parts.sum(1) + added / whole.norm(dim=-1, keepdim=True)
    np.testing.assert_allclose(rows.float(), expected.float(), atol=ROUNDING)
    np.testing.assert_allclose(found, expected, atol=1e-13)


def test_an_edited_head_adds_the_same_to_every_image(encoder, pictures, taken_apart):
    """What is left of the row is all that the other heads and perceptrons gave, to rounding."""
    rows, parts = taken_apart
    heads = [(1, 2), (0, 3)]
    edit = HeadEdit.fit(encoder, pictures, heads=heads)
    places = [EVERY.index(head) for head in heads]
    np.testing.assert_allclose(edit.means, parts[:, places].mean(0), atol=ROUNDING)
    edited = edit.apply(encoder).encode_images(pictures)
    expected = rows - parts[:, places].sum(1) + edit.means.sum(0)
    np.testing.assert_allclose(edited, unit(expected), atol=ROUNDING)
    assert np.abs(edited - encoder.encode_images(pictures)).max() > 0.01
    one = edit.apply(encoder).encode_images(pictures[7:8])
    np.testing.assert_array_equal(one, edited[7:8])  # a row is of its picture alone


def test_no_head_edited_is_the_encoder_to_the_last_bit(encoder, pictures):
    before = encoder.encode_images(pictures)
    edited = HeadEdit.fit(encoder, pictures, heads=[]).apply(encoder)
    np.testing.assert_array_equal(edited.encode_images(pictures), before)
    some = HeadEdit.fit(encoder, pictures, heads=[(1, 0)]).apply(encoder)
    some.encode_images(pictures)
    np.testing.assert_array_equal(encoder.encode_images(pictures), before)  # as it was
    texts = ["a man", "a photo of a doctor"]
    np.testing.assert_array_equal(some.encode_text(texts), encoder.encode_text(texts))
    assert len({encoder.fingerprint, edited.fingerprint, some.fingerprint}) == 3


def test_all_heads_edited_leave_what_perceptrons_see(encoder, pictures, taken_apart):
    rows, parts = taken_apart
    edited = HeadEdit.fit(encoder, pictures, heads=EVERY).apply(encoder).encode_images(pictures)
    expected = rows - parts.sum(1) + parts.mean(0).sum(0)
    np.testing.assert_allclose(edited, unit(expected), atol=3 * ROUNDING)


def test_a_saved_edit_is_an_encoder_by_name(encoder, pictures, tmp_path):
    edit = HeadEdit.fit(encoder, pictures, heads=[(1, 1)])
    edit.save(tmp_path / "heads.safetensors")
    again = HeadEdit.load(tmp_path / "heads.safetensors")
    assert (again.heads, again.found, again.images) == (((1, 1),), "given", 40)
    assert again.fingerprint == edit.fingerprint and "heads=[1.1]" in repr(again)
    expected = edit.apply(encoder)
    loaded = eq.load_encoder(f"heads:{tmp_path / 'heads.safetensors'}", workers=0)
    np.testing.assert_array_equal(loaded.encode_images(pictures), expected.encode_images(pictures))
    assert loaded.fingerprint == expected.fingerprint and loaded.dim == encoder.dim
    vectors = dict(zip(GROUPS, loaded.encode_text(list(GROUPS.values())), strict=True))
    space = eq.AttributeSpace.from_prototypes(vectors, encoder=loaded)
    with pytest.raises(eq.EquipoiseError, match="fitted with"):
        eq.wrap(encoder, space)  # its images are of another encoder


@pytest.mark.slow
def test_an_edited_encoder_is_exported(encoder, pictures, tmp_path):
    component("onnxruntime")
    component("onnxscript")
    edited = HeadEdit.fit(encoder, pictures, heads=[(1, 1), (0, 2)]).apply(encoder)
    eq.export_onnx(edited, tmp_path / "onnx")
    graphs = eq.load_encoder(f"onnx:{tmp_path / 'onnx'}", workers=0)
    found, expected = (one.encode_images(pictures) for one in (graphs, edited))
    np.testing.assert_allclose(found, expected, atol=2e-6)  # float32, in another library
    assert graphs.fingerprint == edited.fingerprint


def test_embed_and_evaluate_take_an_edited_encoder(encoder, pictures, tmp_path):
    path = tmp_path / "heads.safetensors"
    HeadEdit.fit(encoder, pictures, heads=[(1, 1)]).save(path)
    lines = ["file,job,gender"]
    for i, picture in enumerate(pictures):
        picture.save(tmp_path / f"{i}.png")
        lines.append(f"{i}.png,{('doctor', 'nurse')[i % 2]},{('Male', 'Female')[i // 2 % 2]}")
    (tmp_path / "people.csv").write_text("\n".join(lines))
    loaded = eq.load_encoder(f"heads:{path}", workers=0)
    expected = loaded.encode_images(pictures)
    eq.embed(tmp_path / "people.csv", tmp_path / "store", model=loaded.id, column="file")
    store = eq.open_store(tmp_path / "store")
    np.testing.assert_array_equal(store.load(), expected)
    assert store.encoder.fingerprint == loaded.fingerprint
    people = eq.datasets.table(
        tmp_path / "people.csv", label_column="job", group_columns=["gender"]
    )
    settings = Settings(resamples=5, permutations=1)
    evaluation = Evaluation("classification", people, loaded, settings=settings)
    np.testing.assert_array_equal(evaluation.measured.images[0], expected)
    assert evaluation.facts().encoder.fingerprint == loaded.fingerprint


def test_heads_behind_errors_are_those_that_win_where_one_group_is_misread(rng):
    """Head 3 decides the errors, head 0 what is right, and the others a picture or two."""
    truth = np.repeat([0, 1], 100)
    groups = np.tile(["man", "woman"], 100)
    wrong = (groups == "woman") & (np.arange(200) % 4 == 1)
    heads = np.where(wrong, 3, 0)
    heads[:6] = [1, 2, 4, 5, 6, 7]
    predicted = np.where(wrong, 1 - truth, truth)
    found = locating.behind_errors(locating.Decisions(predicted, truth, heads), groups, 8)
    assert found == [3]
    assert locating.carrying(locating.Decisions(predicted, truth, heads), 8) == [0]


def test_heads_are_found_by_labels_of_classes_or_groups(encoder, pictures, taken_apart):
    _, parts = taken_apart
    seen = answers(encoder, pictures, GROUPS)
    edit = HeadEdit.fit(encoder, pictures, group_prompts=GROUPS, sensitive_features=seen)
    texts = encoder.encode_text(list(GROUPS.values()))
    sign = np.where(seen == "man", 1, -1)
    loudest = ((parts @ (texts[0] - texts[1])) * sign[:, None]).argmax(1)
    shares = np.bincount(loudest, minlength=len(EVERY)) / len(loudest)
    limit = 1 / (shares > 0).sum()
    assert set(edit.heads) == {EVERY[i] for i in np.flatnonzero(shares > limit)}
    assert edit.found == "attribute" and edit.images == 40

    said = answers(encoder, pictures, CLASSES)
    other = np.where(said == "doctor", "nurse", "doctor")
    groups = np.where(np.arange(40) % 2, "man", "woman")
    truth = np.where((groups == "woman") & (np.arange(40) % 4 == 0), other, said)
    edit = HeadEdit.fit(
        encoder, pictures, class_prompts=CLASSES, labels=truth, sensitive_features=groups
    )
    assert edit.found == "errors" and set(edit.heads) <= set(EVERY)


def test_pictures_that_cannot_be_read_are_left_out(encoder, pictures):
    given = [pictures[0], b"broken", *pictures[1:10]]
    edit = HeadEdit.fit(encoder, given, heads=[(0, 1)])
    whole = HeadEdit.fit(encoder, pictures[:10], heads=[(0, 1)])
    assert edit.images == 10
    np.testing.assert_array_equal(edit.means, whole.means)
    with pytest.raises(eq.EquipoiseError, match="none of the 1 pictures can be read"):
        HeadEdit.fit(encoder, [b"broken"], heads=[(0, 1)])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "takes one of heads, class_prompts .* none of these"),
        ({"heads": [], "group_prompts": GROUPS}, "heads and group_prompts of these"),
        ({"heads": [(2, 0)]}, r"\(2, 0\) is no head .* layers from 0 to 1 and places from 0 to 3"),
        ({"heads": [(0, -1)]}, "no head of this encoder"),
        ({"heads": [(0, 1.0)]}, "no head of this encoder"),
        ({"heads": [(0, 1), (0, 1)]}, "given twice"),
        ({"group_prompts": GROUPS}, "needs sensitive_features"),
        ({"class_prompts": CLASSES, "sensitive_features": ["man"]}, "needs labels"),
        (
            {"class_prompts": CLASSES, "sensitive_features": ["man"], "labels": ["nurse"] * 2},
            "2 labels and 1 sensitive_features",
        ),
        ({"group_prompts": {"man": "a man"}, "sensitive_features": ["man"]}, "two or more"),
        ({"group_prompts": GROUPS, "sensitive_features": ["child"]}, "'child' has no prompt"),
        (
            {"group_prompts": GROUPS, "sensitive_features": ["man"] * 3},
            "40 pictures and 3 sensitive_features",
        ),
    ],
)
def test_what_cannot_be_fitted_is_an_error_in_words(encoder, pictures, given, message):
    with pytest.raises(eq.EquipoiseError, match=message):
        HeadEdit.fit(encoder, pictures, **given)


def test_labels_that_show_no_error_of_one_group_are_refused(encoder, pictures):
    said = answers(encoder, pictures, CLASSES)
    groups = np.where(np.arange(40) % 2, "man", "woman")
    with pytest.raises(eq.EquipoiseError, match="equally well for all of its groups"):
        HeadEdit.fit(
            encoder, pictures, class_prompts=CLASSES, labels=said, sensitive_features=groups
        )


def test_only_a_clip_of_transformers_has_heads_to_edit(encoder, pictures, tmp_path):
    component("sentencepiece")
    siglip = eq.load_encoder(f"hf:{models.siglip(tmp_path / 'siglip')}", workers=0)
    with pytest.raises(eq.EquipoiseError, match="siglip, whose attention heads cannot"):
        HeadEdit.fit(siglip, pictures, heads=[(0, 0)])
    with pytest.raises(eq.EquipoiseError, match="no attention heads that can be reached"):
        HeadEdit.fit("hf:clip", pictures, heads=[(0, 0)])
    edit = HeadEdit.fit(encoder, pictures, heads=[(0, 0)])
    with pytest.raises(eq.EquipoiseError, match="fit again with this encoder"):
        edit.apply(siglip)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d, a: d.update(heads=[[0, -1]]), r"the field heads\.0\.1 is -1"),
        (lambda d, a: d.update(heads=[]), r"means are float32 \(1, 16\), for 0 heads"),
        (lambda d, a: d.update(found="by lot"), "the field found is 'by lot'"),
        (lambda d, a: a["means"].fill(np.nan), "means are not finite"),
        (lambda d, a: a.clear(), "does not hold a whole head edit"),
        (lambda d, a: d["encoder"].update(id="mini"), "encoders of hf: alone"),
        (lambda d, a: d["encoder"].update(fingerprint="0" * 64), "fit again with this encoder"),
        (lambda d, a: d.update(heads=[[7, 0]]), r"\(7, 0\) is no head"),
        (lambda d, a: a.update(means=a["means"][:, :9].copy()), "9 wide, and .* 16 wide"),
    ],
)
def test_a_changed_file_is_refused_in_words(encoder, pictures, tmp_path, change, message):
    path = tmp_path / "heads.safetensors"
    HeadEdit.fit(encoder, pictures[:2], heads=[(1, 1)]).save(path)
    with safe_open(path, "np") as file:
        document = json.loads(file.metadata()["equipoise"])
        arrays = {"means": file.get_tensor("means")}
    change(document, arrays)
    save_file(arrays, path, {"equipoise": json.dumps(document)})
    with pytest.raises(eq.EquipoiseError, match=message):
        eq.load_encoder(f"heads:{path}")
