"""``eq.RowCheck``: ask once, after many calls of ``eq.debias``, if every row had a direction."""

from __future__ import annotations

import threading
import warnings
from collections import deque
from typing import Any

from equipoise.errors import InvalidRowsError

MOST_WAITING = 4096  # calls whose numbers are not yet read; each takes 16 bytes on CUDA


class RowCheck:
    """Looks for rows without a direction later, so that no call waits for its device.

    ``eq.debias(e, space, on_invalid=check)`` lets such rows through unchanged, as "keep" does, and
    leaves their number on the device. ``raise_if_invalid`` reads the numbers of all calls since it
    was last asked, and so does the end of a ``with`` block. A check that is dropped before it was
    asked warns.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Any, int]] = deque()
        self._reading = threading.Lock()  # for the one who empties it; any thread may add to it
        self._begin()

    def _begin(self) -> None:
        """Count from zero; calls that were not yet looked at stay."""
        self._calls = self._rows = self._invalid = 0
        self._first = ""

    def add(self, invalid: Any, rows: int) -> None:
        """Note a call that was given so many rows; ``invalid``: the number without a direction.

        The number may still be on its way. ``eq.debias`` calls this.
        """
        self._waiting.append((invalid, rows))
        if len(self._waiting) >= MOST_WAITING:
            with self._reading:
                self._read()

    def _read(self) -> None:
        """Wait for the numbers that are on their way, and add them up, each once: an error or
        Ctrl-C while it waits leaves the rest for the next look.
        """
        for _ in range(len(self._waiting)):
            invalid, rows = self._waiting[0]
            number = int(invalid)
            self._waiting.popleft()
            self._calls += 1
            self._rows += rows
            self._invalid += number
            if number and not self._first:
                self._first = f"{number} of {rows} in call {self._calls}"

    def raise_if_invalid(self) -> None:
        """Raise an error if a row of a call since the last look had no direction."""
        with self._reading:
            self._read()
            calls, rows, invalid, first = self._calls, self._rows, self._invalid, self._first
            self._begin()
        if not invalid:
            return
        have = "has" if invalid == 1 else "have"
        made = "one call" if calls == 1 else f"{calls} calls"
        raise InvalidRowsError(
            f"{invalid} of {rows} rows in {made} {have} no direction: zero, NaN or infinite"
            f" (first: {first}). They came back unchanged; give the rows of that call to eq.debias"
            ' again, with on_invalid="raise", to have them named',
            count=invalid,
        )

    def __enter__(self) -> RowCheck:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if kind is None:
            self.raise_if_invalid()
        else:  # another error is on its way
            with self._reading:
                self._waiting.clear()
                self._begin()

    def __del__(self) -> None:
        if self._waiting or self._calls:
            warnings.warn(
                "a RowCheck was dropped before it was asked, so nobody knows whether its rows had"
                " a direction; call check.raise_if_invalid(), or use it in a with block",
                stacklevel=2,
            )

    def __repr__(self) -> str:
        return f"RowCheck({self._calls + len(self._waiting)} calls not yet looked at)"
