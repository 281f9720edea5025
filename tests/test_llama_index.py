"""equipoise.llama_index: rows of any provider, debiased, in an index of LlamaIndex."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import equipoise as eq
from equipoise.errors import EquipoiseError
from tests.helpers.common import component, embedded_model, make_space, save_gallery

component("llama_index.core")
from llama_index.core import Document, VectorStoreIndex  # noqa: E402

from equipoise.llama_index import DebiasedEmbedding, EncoderEmbedding  # noqa: E402

TEXTS = ["a photo of a doctor", "a photo of a female doctor", "a red car"]


@pytest.fixture(scope="module")
def plain():
    """mini as LlamaIndex takes it: an embedding that knows nothing of debiasing."""
    encoder = embedded_model()
    encoder.workers = 0  # one picture: this process decodes it
    return EncoderEmbedding(encoder)


def test_our_encoders_embed_texts_and_images(plain, tmp_path):
    encoder = embedded_model()
    encoder.workers = 0  # a few pictures: this process decodes them
    np.testing.assert_allclose(plain.get_text_embedding_batch(TEXTS), encoder.encode_text(TEXTS))
    assert plain.get_query_embedding(TEXTS[0]) == plain.get_text_embedding(TEXTS[0])
    save_gallery(tmp_path / "photos", every=400)
    file = str(next((tmp_path / "photos").iterdir()))
    row = encoder.encode_images([file])[0]
    np.testing.assert_allclose(plain.get_image_embedding(file), row)
    np.testing.assert_allclose(asyncio.run(plain.aget_image_embedding(file)), row)
    assert plain.model_name == encoder.id


def test_documents_and_queries_are_debiased(plain, rng):
    dim = len(plain.get_query_embedding("a"))
    space = make_space(rng, dim)
    debiased = DebiasedEmbedding(plain, space)
    expected = eq.debias(np.array(plain.get_text_embedding_batch(TEXTS)), space)
    np.testing.assert_array_equal(debiased.get_text_embedding_batch(TEXTS), expected)
    np.testing.assert_array_equal(asyncio.run(debiased.aget_text_embedding_batch(TEXTS)), expected)
    np.testing.assert_allclose(debiased.get_query_embedding(TEXTS[0]), expected[0], atol=1e-12)
    found = asyncio.run(debiased.aget_query_embedding(TEXTS[0]))
    np.testing.assert_allclose(found, expected[0], atol=1e-12)


def test_an_index_finds_what_debiased_rows_are_nearest(plain, rng):
    space = make_space(rng, len(plain.get_query_embedding("a")))
    texts = [f"a photo of a {word}" for word in ("doctor", "nurse", "dog", "car", "teacher")]
    debiased = DebiasedEmbedding(plain, space)
    index = VectorStoreIndex.from_documents(
        [Document(text=text) for text in texts], embed_model=debiased
    )
    rows = eq.debias(np.array(plain.get_text_embedding_batch(texts)), space)
    query = eq.debias(np.array(plain.get_query_embedding("a surgeon")), space)
    expected = [texts[i] for i in np.argsort(-(rows @ query))[:2]]
    found = index.as_retriever(similarity_top_k=2).retrieve("a surgeon")
    assert [node.text for node in found] == expected


def test_what_is_typed_wrong_first_is_answered(plain, rng):
    space = make_space(rng, 8)
    with pytest.raises(EquipoiseError, match="pass one first, and the space"):
        DebiasedEmbedding(space, plain)
    with pytest.raises(EquipoiseError, match="str is not an operator"):
        DebiasedEmbedding(plain, "gender")
    with pytest.raises(EquipoiseError, match="takes rows 8 wide"):
        DebiasedEmbedding(plain, space).get_query_embedding("a doctor")
    with pytest.raises(EquipoiseError, match="is not an encoder"):
        EncoderEmbedding(plain)
