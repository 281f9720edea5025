"""Types of array functions: what comes out is the kind of array that went in."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar


class Rows(Protocol):
    """An array of rows (..., d): of numpy, torch or jax, none of which need be installed."""

    @property
    def shape(self) -> Any: ...

    @property
    def dtype(self) -> Any: ...


SameRows = TypeVar("SameRows", bound=Rows)
"""What is returned is of the type of what was given."""
