"""The time that we write into files: the clock's, or SOURCE_DATE_EPOCH's where it is set."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from equipoise.errors import InputError

VARIABLE = "SOURCE_DATE_EPOCH"


def now() -> datetime:
    """Return the time, in UTC.

    SOURCE_DATE_EPOCH, in seconds since 1970, takes the clock's place, so that two runs of one
    command can write the same bytes.
    """
    given = os.environ.get(VARIABLE)
    if not given:
        return datetime.now(UTC)
    try:
        return datetime.fromtimestamp(int(given), UTC)
    except (ValueError, OverflowError, OSError):
        raise InputError(
            f"{VARIABLE}={given!r} is not legal; set it to whole seconds since 1970, or unset it"
        ) from None
