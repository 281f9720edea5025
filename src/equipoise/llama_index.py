"""Embeddings for LlamaIndex: those of any provider, debiased, and those of our encoders."""

from __future__ import annotations

import asyncio
from typing import Any

from equipoise._space import AttributeSpace
from equipoise._spaceset import SpaceSet
from equipoise.encoders import Encoder, WrappedEncoder
from equipoise.encoders._text_rows import ListedRows, TextRows
from equipoise.encoders._wrapping import Gate
from equipoise.errors import InputError, MissingExtraError
from equipoise.methods import Operator

try:
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.embeddings.multi_modal_base import MultiModalEmbedding
    from pydantic import PrivateAttr
except ImportError:
    raise MissingExtraError("equipoise.llama_index", "llama-index-core", "llama-index") from None

__all__ = ["DebiasedEmbedding", "EncoderEmbedding"]


class DebiasedEmbedding(BaseEmbedding):
    """The embeddings of another model, debiased: every index of LlamaIndex takes it.

    embedding: LlamaIndex's own, of any provider. operator: an attribute space, or what fitting a
    method gave. gate: keep texts that name a group as they are, as ``eq.wrap`` does. ``balanced``
    moves queries, so it leaves documents as they are; most methods change both alike.
    """

    _embedding: BaseEmbedding = PrivateAttr()
    _rows: TextRows = PrivateAttr()

    def __init__(
        self,
        embedding: BaseEmbedding,
        operator: AttributeSpace | SpaceSet | Operator,
        *,
        gate: Gate = None,
        **options: Any,
    ):
        if not isinstance(embedding, BaseEmbedding):
            raise InputError(
                f"{type(embedding).__name__} is no embedding of LlamaIndex; pass one first, and the"
                " space or operator second (an encoder of ours goes into EncoderEmbedding)"
            )
        rows = TextRows.of(operator, gate)
        options.setdefault("model_name", f"{embedding.model_name}+equipoise")
        options.setdefault("embed_batch_size", embedding.embed_batch_size)
        super().__init__(**options)
        self._embedding, self._rows = embedding, rows

    @classmethod
    def class_name(cls) -> str:
        """Return the name that LlamaIndex shows."""
        return "DebiasedEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._rows.query(self._embedding.get_query_embedding(query), query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._rows.query(await self._embedding.aget_query_embedding(query), query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> ListedRows:
        return self._rows.documents(self._embedding.get_text_embedding_batch(texts), texts)

    async def _aget_text_embeddings(self, texts: list[str]) -> ListedRows:
        rows = await self._embedding.aget_text_embedding_batch(texts)
        return self._rows.documents(rows, texts)


class EncoderEmbedding(MultiModalEmbedding):
    """An encoder of ours as an embedding of LlamaIndex, for texts and images.

    encoder: what ``eq.load_encoder`` or ``eq.wrap`` returns.
    """

    _encoder: Encoder | WrappedEncoder = PrivateAttr()

    def __init__(self, encoder: Encoder | WrappedEncoder, **options: Any):
        if not hasattr(encoder, "encode_text"):
            raise InputError(
                f"{type(encoder).__name__} is not an encoder; pass what eq.load_encoder or eq.wrap"
                " returns"
            )
        options.setdefault("model_name", encoder.id)
        super().__init__(**options)
        self._encoder = encoder

    @classmethod
    def class_name(cls) -> str:
        """Return the name that LlamaIndex shows."""
        return "EncoderEmbedding"

    def _get_text_embeddings(self, texts: list[str]) -> ListedRows:
        return self._encoder.encode_text(texts).tolist()

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)

    def _get_image_embedding(self, img_file_path: Any) -> list[float]:
        return self._encoder.encode_images([img_file_path], on_unreadable="raise")[0].tolist()

    async def _aget_image_embedding(self, img_file_path: Any) -> list[float]:
        return await asyncio.to_thread(self._get_image_embedding, img_file_path)
