"""A collection of a vector database, as ``apply`` reads and writes it, and how sources name it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from equipoise._paths import hide_secrets, without_secrets
from equipoise.errors import EquipoiseError, InputError, ServiceError

Cursor = int | str | None
SERVERS = ("http://", "https://")


@dataclass(frozen=True)
class Batch:
    """Rows that follow each other in the order of a collection.

    vectors: None where a row has no embedding. rows: what the database gave, to be written again
    with other vectors. next: where the following batch begins; None after the last one.
    """

    ids: Sequence[Any]
    vectors: Sequence[Any]
    rows: Any
    next: Cursor


class BatchedCollection(Protocol):
    """A collection whose rows are read in batches, and written in batches to another one.

    A batch that is written twice is there once, since rows have ids. width: of the embeddings; None
    where the collection is empty and does not say.
    """

    vector: str
    width: int | None

    def count(self, name: str | None = None) -> int:
        """Return how many rows this collection has, or the one of that name."""
        ...

    def read(self, begin: Cursor, size: int) -> Batch:
        """Return at most ``size`` rows from a place on; None is the start."""
        ...

    def exists(self, name: str) -> bool:
        """Return whether the database has a collection of this name."""
        ...

    def create(self, name: str, width: int) -> None:
        """Make an empty collection like this one, but for the width of its embeddings."""
        ...

    def write(self, name: str, batch: Batch, vectors: Sequence[list[float] | None]) -> None:
        """Write rows of a batch, with their ids, to the collection of that name."""
        ...


@dataclass(frozen=True)
class Address:
    """What a source such as ``qdrant:folder#photos`` says. place: a path, or a server's URL."""

    kind: str
    place: str
    name: str

    @property
    def is_server(self) -> bool:
        return self.place.startswith(SERVERS)

    def shown(self, name: str) -> str:
        """Return the address of a collection of this database, as it may be printed."""
        return f"{self.kind}:{without_secrets(self.place)}#{name}"


def address_of(source: str) -> Address:
    """Return what a source says, checked as far as it can be without the database."""
    kind, _, rest = source.partition(":")
    place, _, name = rest.rpartition("#")
    if not place or not name:
        raise InputError(
            f"{without_secrets(source)!r} does not say which collection; write"
            f" {kind}:PLACE#COLLECTION, where PLACE is a path or the http:// address of a server"
        )
    return Address(kind, place, name)


def require_local(address: Address, marker: str, what: str) -> None:
    """Raise where a path holds no such database, which the client would create.

    marker: a file that every one of them has.
    """
    if not (Path(address.place) / marker).exists():
        raise InputError(f"{address.place} holds no database of {what}; pass the path of one")


def require_known(address: Address, found: Sequence[str]) -> None:
    """Raise unless the collection is among those that the database has."""
    if address.name not in found:
        raise InputError(
            f"{address.shown(address.name)}: there is no collection {address.name!r}; the database"
            f" has {_listed(found)}"
        )


def the_vector(wanted: str | None, found: Sequence[str], address: Address) -> str:
    """Return which vector of each row is meant: the one that was asked for, or the only one."""
    if wanted is None and len(found) == 1:
        return found[0]
    if wanted is not None and wanted in found:
        return wanted
    what = "several vectors per row" if wanted is None else f"no vector {wanted!r} of floats"
    raise InputError(
        f"{address.shown(address.name)} has {what}; pass `column`, one of {_listed(found)}"
    )


@contextmanager
def in_words(address: Address, errors: Callable[[], tuple[type[Exception], ...]]) -> Iterator[None]:
    """Raise what a client reports as an error of ours, in one line and without secrets.

    errors: returns the types of what it raises; its package is imported by then.
    """
    try:
        yield
    except EquipoiseError:
        raise
    except Exception as error:
        if not isinstance(error, errors()):
            raise
        told = hide_secrets(str(error).strip().partition("\n")[0], address.place)
        raise ServiceError(
            f"{address.shown(address.name)}: the database refused, or does not answer ({told});"
            " when that is mended, go on with `resume`"
        ) from None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names)) or "none"
