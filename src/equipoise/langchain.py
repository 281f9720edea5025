"""Embeddings for LangChain: those of any provider, debiased, and those of our encoders."""

from __future__ import annotations

from equipoise._space import AttributeSpace
from equipoise._spaceset import SpaceSet
from equipoise.encoders import Encoder, WrappedEncoder
from equipoise.encoders._text_rows import ListedRows, TextRows
from equipoise.encoders._wrapping import Gate
from equipoise.errors import InputError, MissingExtraError
from equipoise.methods import Operator

try:
    from langchain_core.embeddings import Embeddings
except ImportError:
    raise MissingExtraError("equipoise.langchain", "langchain-core", "langchain") from None

__all__ = ["DebiasedEmbeddings", "EncoderEmbeddings"]


class DebiasedEmbeddings(Embeddings):
    """The embeddings of another model, debiased: any vector store of LangChain takes them.

    embeddings: LangChain's own, of any provider. operator: an attribute space, or what fitting a
    method gave. gate: keep texts that name a group as they are, as ``eq.wrap`` does. ``balanced``
    moves queries, so it leaves documents as they are; most methods change both alike.
    """

    def __init__(
        self,
        embeddings: Embeddings,
        operator: AttributeSpace | SpaceSet | Operator,
        *,
        gate: Gate = None,
    ):
        if not isinstance(embeddings, Embeddings):
            raise InputError(
                f"{type(embeddings).__name__} is no Embeddings of LangChain; pass one first, and"
                " the space or operator second (an encoder of ours goes into EncoderEmbeddings)"
            )
        self.embeddings: Embeddings = embeddings
        self._rows = TextRows.of(operator, gate)

    def embed_documents(self, texts: list[str]) -> ListedRows:
        """Return a debiased row per text."""
        return self._rows.documents(self.embeddings.embed_documents(texts), texts)

    def embed_query(self, text: str) -> list[float]:
        """Return the debiased row of a query."""
        return self._rows.query(self.embeddings.embed_query(text), text)

    async def aembed_documents(self, texts: list[str]) -> ListedRows:
        """Return a debiased row per text."""
        return self._rows.documents(await self.embeddings.aembed_documents(texts), texts)

    async def aembed_query(self, text: str) -> list[float]:
        """Return the debiased row of a query."""
        return self._rows.query(await self.embeddings.aembed_query(text), text)


class EncoderEmbeddings(Embeddings):
    """An encoder of ours as embeddings of LangChain, for texts and images.

    encoder: what ``eq.load_encoder`` or ``eq.wrap`` returns.
    """

    def __init__(self, encoder: Encoder | WrappedEncoder):
        if not hasattr(encoder, "encode_text"):
            raise InputError(
                f"{type(encoder).__name__} is not an encoder; pass what eq.load_encoder or eq.wrap"
                " returns"
            )
        self.encoder: Encoder | WrappedEncoder = encoder

    def embed_documents(self, texts: list[str]) -> ListedRows:
        """Return a row per text."""
        return self.encoder.encode_text(texts).tolist()

    def embed_query(self, text: str) -> list[float]:
        """Return the row of a query."""
        if not isinstance(text, str):
            raise InputError(f"the query is of type {type(text).__name__}; pass one text, a str")
        return self.embed_documents([text])[0]

    def embed_image(self, uris: list[str]) -> ListedRows:
        """Return a row per picture's file; multimodal stores call it so."""
        return self.encoder.encode_images(uris, on_unreadable="raise").tolist()
