"""equipoise.langchain: rows of any provider, debiased, in a vector store of LangChain."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import equipoise as eq
from equipoise.errors import EquipoiseError
from tests.helpers.common import component, embedded_model, make_space, save_gallery

component("langchain_core")
from langchain_core.embeddings import DeterministicFakeEmbedding  # noqa: E402
from langchain_core.vectorstores import InMemoryVectorStore  # noqa: E402

from equipoise.langchain import DebiasedEmbeddings, EncoderEmbeddings  # noqa: E402

TEXTS = ["a photo of a doctor", "a photo of a female doctor", "a red car"]
PLAIN = DeterministicFakeEmbedding(size=16)


def test_documents_and_queries_are_debiased(rng):
    space = make_space(rng, 16)
    debiased = DebiasedEmbeddings(PLAIN, space)
    expected = eq.debias(np.array(PLAIN.embed_documents(TEXTS)), space)
    np.testing.assert_array_equal(debiased.embed_documents(TEXTS), expected)
    np.testing.assert_array_equal(asyncio.run(debiased.aembed_documents(TEXTS)), expected)
    query = eq.debias(np.array(PLAIN.embed_query(TEXTS[0])), space)
    np.testing.assert_array_equal(debiased.embed_query(TEXTS[0]), query)
    np.testing.assert_array_equal(asyncio.run(debiased.aembed_query(TEXTS[0])), query)
    assert debiased.embed_documents([]) == []


def test_the_gate_keeps_texts_that_name_a_group(rng):
    prototypes = {group: rng.standard_normal(16) for group in ("male", "female")}
    space = eq.AttributeSpace.from_prototypes(prototypes, attribute="gender")
    gated = DebiasedEmbeddings(PLAIN, space, gate=True)
    assert gated.embed_query(TEXTS[1]) == PLAIN.embed_query(TEXTS[1])
    assert gated.embed_query(TEXTS[0]) != PLAIN.embed_query(TEXTS[0])


def test_balanced_moves_queries_and_leaves_documents(rng):
    rows = rng.standard_normal((60, 16))
    prototypes = {"male": rng.standard_normal(16), "female": rng.standard_normal(16)}
    context = eq.FitContext(eq.Attribute.load("gender"), prototypes=prototypes, images=rows)
    operator = eq.methods.create("balanced", k=10).fit(context)
    balanced = DebiasedEmbeddings(PLAIN, operator)
    assert balanced.embed_documents(TEXTS) == PLAIN.embed_documents(TEXTS)
    query = np.array(PLAIN.embed_documents(TEXTS[:1]))
    expected = operator.text(query, prompts=TEXTS[:1])[0]
    np.testing.assert_array_equal(balanced.embed_query(TEXTS[0]), expected)


def test_a_vector_store_finds_what_debiased_rows_are_nearest(rng):
    space = make_space(rng, 16)
    store = InMemoryVectorStore(DebiasedEmbeddings(PLAIN, space))
    texts = [f"document {i}" for i in range(20)]
    store.add_texts(texts)
    rows = eq.debias(np.array(PLAIN.embed_documents(texts)), space)
    query = eq.debias(np.array(PLAIN.embed_query("a doctor")), space)
    expected = [texts[i] for i in np.argsort(-(rows @ query))[:3]]
    found = store.as_retriever(search_kwargs={"k": 3}).invoke("a doctor")
    assert [document.page_content for document in found] == expected


def test_our_encoders_embed_texts_and_images(tmp_path):
    encoder = embedded_model()
    encoder.workers = 0  # a few pictures: this process decodes them
    embeddings = EncoderEmbeddings(encoder)
    np.testing.assert_allclose(embeddings.embed_documents(TEXTS), encoder.encode_text(TEXTS))
    assert embeddings.embed_query(TEXTS[0]) == embeddings.embed_documents(TEXTS[:1])[0]
    save_gallery(tmp_path / "photos", every=400)
    files = sorted(map(str, (tmp_path / "photos").iterdir()))
    np.testing.assert_allclose(embeddings.embed_image(files), encoder.encode_images(files))


def test_what_is_typed_wrong_first_is_answered(rng):
    space = make_space(rng, 16)
    with pytest.raises(EquipoiseError, match="pass one first, and the space"):
        DebiasedEmbeddings(space, PLAIN)
    with pytest.raises(EquipoiseError, match="str is not an operator"):
        DebiasedEmbeddings(PLAIN, "gender")
    with pytest.raises(EquipoiseError, match="takes rows 8 wide"):
        DebiasedEmbeddings(PLAIN, make_space(rng, 8)).embed_query("a doctor")
    with pytest.raises(EquipoiseError, match="is not an encoder"):
        EncoderEmbeddings(PLAIN)
