"""Each transformers architecture, small, saved and loaded for real: our rows are the library's own."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import equipoise as eq
from tests.helpers import models
from tests.helpers.common import component, unit

torch = component("torch")
transformers = component("transformers")
Image = component("PIL.Image")

TEXTS = [
    "a photo of a doctor",
    "a nurse",
    "an old woman with a hat and a young man with glasses in front of the hospital",
    "a",
]
PRECISION = 2e-6  # float32, through a few layers in another batch and another order


@pytest.fixture(scope="module")
def pictures():
    rng = np.random.default_rng(0)
    return [
        Image.fromarray(rng.integers(0, 256, (37 + 9 * i, 60 - 3 * i, 3), dtype=np.uint8))
        for i in range(5)
    ]


@pytest.fixture(scope="module", params=sorted(models.HF))
def saved(request, tmp_path_factory):
    component("sentencepiece" if request.param == "siglip" else "PIL")
    return request.param, models.HF[request.param](
        tmp_path_factory.mktemp("models") / request.param
    )


def straight(kind, folder, texts, pictures):
    """With the library alone, as its documentation says: unit rows of texts and of images."""
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    padding = "max_length" if kind.startswith("siglip") else True
    tokens = tokenizer(
        texts,
        padding=padding,
        truncation=True,
        max_length=24,
        return_attention_mask=True,
        return_tensors="pt",
    )
    if kind.startswith("siglip"):
        tokens = {"input_ids": tokens["input_ids"]}
    pixels = processor(images=pictures, return_tensors="pt")
    with torch.inference_mode():
        if kind == "blip2":
            model = transformers.Blip2ForImageTextRetrieval.from_pretrained(folder)
            out = model(**pixels, **tokens)
            return unit(out.text_embeds.numpy()), unit(out.image_embeds.mean(1).numpy())
        if kind == "blip":
            return None, None
        model = transformers.AutoModel.from_pretrained(folder)
        rows = model.get_text_features(**tokens), model.get_image_features(**pixels)
        return tuple(unit(row.pooler_output.numpy()) for row in rows)


def test_rows_are_the_library_s_own(saved, pictures):
    kind, folder = saved
    encoder = eq.load_encoder(f"hf:{folder}", workers=0)
    text, image = encoder.encode_text(TEXTS), encoder.encode_images(pictures)
    for rows, n in ((text, len(TEXTS)), (image, len(pictures))):
        assert rows.shape == (n, encoder.dim)
        assert rows.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=3e-7)
        assert (rows @ rows.T)[
            np.triu_indices(n, 1)
        ].max() < 0.9999  # different inputs, different rows
    expected_text, expected_image = straight(kind, folder, TEXTS, pictures)
    if expected_text is not None:
        np.testing.assert_allclose(text, expected_text, atol=PRECISION)
        np.testing.assert_allclose(image, expected_image, atol=PRECISION)


def test_pictures_of_many_shapes_go_through_our_own_preprocessing(saved):
    """All but the flexible SigLIP 2, whose processor runs itself."""
    kind, folder = saved
    assert (eq.load_encoder(f"hf:{folder}").towers.preprocess is None) == (kind == "siglip2")


def test_blip_equals_the_model_s_own_itc_logits(tmp_path, pictures):
    folder = models.blip(tmp_path / "blip")
    encoder = eq.load_encoder(f"hf:{folder}")
    model = transformers.BlipForImageTextRetrieval.from_pretrained(folder).eval()
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    tokens = transformers.AutoTokenizer.from_pretrained(folder)(
        TEXTS, padding=True, truncation=True, max_length=24, return_tensors="pt"
    )
    with torch.inference_mode():
        logits = model(
            **tokens, **processor(images=pictures, return_tensors="pt"), use_itm_head=False
        ).itm_score
    np.testing.assert_allclose(
        encoder.encode_images(pictures) @ encoder.encode_text(TEXTS).T,
        logits.numpy(),
        atol=PRECISION,
    )


def test_blip2_s_own_score_is_the_largest_over_its_queries(tmp_path, pictures):
    folder = models.blip2(tmp_path / "blip2")
    encoder = eq.load_encoder(f"hf:{folder}")
    model = transformers.Blip2ForImageTextRetrieval.from_pretrained(folder).eval()
    pixels = transformers.AutoImageProcessor.from_pretrained(folder)(
        images=pictures, return_tensors="pt"
    )
    tokens = transformers.AutoTokenizer.from_pretrained(folder)(
        TEXTS, padding=True, return_tensors="pt"
    )
    with torch.inference_mode():
        logits = model(**tokens, **pixels).logits_per_image
        queries = encoder.module.query_features(pixels["pixel_values"])
    ours = torch.einsum("nqd,td->nqt", queries, torch.from_numpy(encoder.encode_text(TEXTS))).amax(
        1
    )
    np.testing.assert_allclose(ours, logits, atol=PRECISION)


def test_fingerprint_is_of_weights_vocabulary_and_preprocessing(tmp_path):
    first = models.clip(tmp_path / "one")
    second = shutil.copytree(first, tmp_path / "two")
    fingerprint = eq.load_encoder(f"hf:{first}").fingerprint
    assert (
        eq.load_encoder(f"hf:{second}").fingerprint == fingerprint
    )  # another folder, the same model
    model = transformers.CLIPModel.from_pretrained(second)
    with torch.no_grad():
        model.text_projection.weight[3, 5] += 1e-6
    model.save_pretrained(second)
    assert eq.load_encoder(f"hf:{second}").fingerprint != fingerprint
    processor = transformers.AutoImageProcessor.from_pretrained(first)
    processor.image_mean = [0.5, 0.5, 0.5]
    processor.save_pretrained(first)
    assert eq.load_encoder(f"hf:{first}").fingerprint != fingerprint


@pytest.mark.parametrize("change", ["heads", "activation", "swapped layers", "truncation side"])
def test_fingerprint_tells_models_with_the_same_weights_apart(tmp_path, change):
    folder = models.clip(tmp_path / "one")
    fingerprint = eq.load_encoder(f"hf:{folder}").fingerprint
    config = json.loads((folder / "config.json").read_text())
    if change == "heads":
        config["text_config"]["num_attention_heads"] = 2
    elif change == "activation":
        config["vision_config"]["hidden_act"] = "gelu"
    elif change == "swapped layers":
        model = transformers.CLIPModel.from_pretrained(folder)
        layers = model.text_model.encoder.layers
        layers[0], layers[1] = layers[1], layers[0]
        model.save_pretrained(folder)
    else:
        settings = json.loads((folder / "tokenizer_config.json").read_text())
        (folder / "tokenizer_config.json").write_text(
            json.dumps(settings | {"truncation_side": "left"})
        )
    if change in ("heads", "activation"):
        (folder / "config.json").write_text(json.dumps(config))
    assert eq.load_encoder(f"hf:{folder}").fingerprint != fingerprint


def test_weights_that_are_not_there_are_not_made_up(tmp_path):
    """A CLIP without its text tower would otherwise encode with random weights, others at every load."""
    from safetensors.torch import load_file, save_file

    folder = models.clip(tmp_path / "clip")
    weights = {
        name: tensor
        for name, tensor in load_file(folder / "model.safetensors").items()
        if "text_model" not in name
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        eq.EquipoiseError, match=r"lacks \d+ weights that encoding needs, such as text_model"
    ):
        eq.load_encoder(f"hf:{folder}")


def test_sharding_does_not_change_the_fingerprint_of_the_same_numbers(tmp_path):
    folder = models.clip(tmp_path / "one")
    fingerprint = eq.load_encoder(f"hf:{folder}").fingerprint
    model = transformers.CLIPModel.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="50KB")
    assert len(list(folder.glob("*.safetensors"))) > 1
    assert eq.load_encoder(f"hf:{folder}").fingerprint == fingerprint


def test_truncated_texts_are_counted_and_cut_by_the_model_s_own_tokenizer(tmp_path):
    encoder = eq.load_encoder(f"hf:{models.clip(tmp_path / 'clip')}")
    long = "a doctor and a nurse " * 12
    with pytest.warns(UserWarning, match="2 of 3 texts are longer than the 24 tokens"):
        rows = encoder.encode_text(["a doctor", long, long + " with a hat"])
    assert encoder.report.truncated == 2
    np.testing.assert_allclose(rows[1], rows[2], atol=PRECISION)  # what lies beyond is not read


@pytest.mark.parametrize("batch_size", [1, 3, None])
def test_rows_do_not_depend_on_the_batch(tmp_path, pictures, batch_size):
    folder = models.clip(tmp_path / "clip")
    one, other = (
        eq.load_encoder(f"hf:{folder}", batch_size=2),
        eq.load_encoder(f"hf:{folder}", batch_size=batch_size),
    )
    texts = [f"a photo of a {word}" for word in models.WORDS.split()]
    np.testing.assert_allclose(one.encode_text(texts), other.encode_text(texts), atol=PRECISION)
    np.testing.assert_allclose(
        one.encode_images(pictures * 9), other.encode_images(pictures * 9), atol=PRECISION
    )


def test_bfloat16_autocast_is_close(tmp_path, pictures):
    folder = models.clip(tmp_path / "clip")
    exact, half = (
        eq.load_encoder(f"hf:{folder}", dtype=dtype) for dtype in ("float32", "bfloat16")
    )
    assert half.fingerprint == exact.fingerprint
    cosines = (exact.encode_images(pictures) * half.encode_images(pictures)).sum(1)
    assert cosines.min() > 1 - 1e-3  # 8 bits a product, averaged over a few layers
    assert cosines.min() < 1 - 1e-8  # it is another computation


def test_one_tower_is_not_enough(tmp_path):
    config = transformers.BertConfig(vocab_size=60, **models.TEXT)
    folder = models.save(tmp_path / "bert", transformers.BertModel(config), models.bert_tokenizer())
    with pytest.raises(
        eq.EquipoiseError, match=r"BertModel, which has no image tower; for texts alone use st:"
    ):
        eq.load_encoder(f"hf:{folder}")


def test_a_damaged_folder(tmp_path):
    folder = models.clip(tmp_path / "clip")
    (folder / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(eq.EquipoiseError, match="could not be loaded from that folder"):
        eq.load_encoder(f"hf:{folder}")


def test_the_hub_out_of_reach(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(
        eq.EquipoiseError,
        match=r"did you mean openai/clip-vit-base-patch32.*copy the model's files to a folder",
    ):
        eq.load_encoder("hf:openai/clip-vit-base-patch-32")
    with pytest.raises(
        eq.EquipoiseError, match=r"\)\. Where the hub cannot be reached, copy"
    ) as known:
        eq.load_encoder("hf:openai/clip-vit-base-patch32")
    assert "did you mean" not in str(known.value)  # the name is right; the way to it is what lacks


def test_module_is_a_torch_module_with_gradients(tmp_path):
    encoder = eq.load_encoder(f"hf:{models.clip(tmp_path / 'clip')}")
    tokens = encoder.towers.tokenize(TEXTS)
    pixels = torch.rand(2, 3, 32, 32, requires_grad=True)
    images, texts = encoder.module(pixels, **tokens)
    np.testing.assert_allclose(texts, encoder.encode_text(TEXTS), atol=PRECISION)
    (images @ texts.T).sum().backward()
    assert pixels.grad.abs().max() > 0
