"""What is told where equipoise itself is at fault: the traceback, fit to be sent to others."""

from __future__ import annotations

import os
import re
import traceback

_SECRET = re.compile("KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
_SHORTEST = 6  # letters of a secret; a shorter value is a setting, and may be a word
_IN_ADDRESS = re.compile(r"(://)[^/\s@'\"]+@")  # the user and the password
_ASSIGNED = re.compile(r"(?i)\b(password|passwd|api_key|token)(=|: ?)[^\s,;&'\"]+")


def crash_report(error: BaseException) -> str:
    """Return the traceback of an error, without values of variables and without secrets."""
    lines = "".join(traceback.format_exception(error))
    told = (
        f"{lines}equipoise: this is a mistake of equipoise's own, and not yours. Please report it"
        " with the lines above; secrets of the environment are left out of them."
    )
    return without_secrets(told)


def without_secrets(text: str) -> str:
    """Return a text with *** in place of secrets.

    They are passwords in addresses, and what the environment keeps under a name like API_KEY or
    TOKEN.
    """
    secrets = [value for name, value in os.environ.items() if _SECRET.search(name)]
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, "***")
    text = _IN_ADDRESS.sub(r"\1***@", text)
    return _ASSIGNED.sub(r"\1\2***", text)
