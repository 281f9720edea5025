"""What addresses take and refuse: a JSON object in, an error as JSON out."""

from __future__ import annotations

import json
from typing import Any, cast

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response


async def fields_of(request: Request) -> dict[str, Any]:
    """Return the JSON object that was sent.

    Other types of content are refused: they are what another site's form could send.
    """
    kind = request.headers.get("content-type", "").split(";")[0]
    if kind.strip().lower() != "application/json":
        raise HTTPException(415, "send application/json")
    try:
        fields = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise HTTPException(400, "this is not JSON") from None
    except ClientDisconnect:  # nobody is there to hear it
        raise HTTPException(400, "the request broke off") from None
    if not isinstance(fields, dict):
        raise HTTPException(400, "send a JSON object")
    return fields


def refusal(_: Request, error: Exception) -> Response:
    """Return an answer that says why a request was refused."""
    refused = cast(HTTPException, error)
    return JSONResponse({"error": refused.detail}, refused.status_code, headers=refused.headers)
