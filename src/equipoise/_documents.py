"""Documents: frozen models of what JSON files hold, and one way to read them.

A field that a model does not know is ignored: within one format number fields may be added.
"""

from __future__ import annotations

import json
import math
import os
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, JsonValue, ValidationError

from equipoise._artefact import parse_json, require_format
from equipoise.errors import ArtefactError

SHOWN = 60  # characters of a wrong value that an error shows
Model = TypeVar("Model", bound=BaseModel)


class Document(BaseModel):
    """A document of plain values, or a part of one.

    It cannot be changed: ``model_copy(update=...)`` gives another one.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, populate_by_name=True)

    def to_plain(self) -> dict[str, Any]:
        """Return the fields that were given, by their names in the file, in JSON's own types."""
        return plain(self.model_dump(by_alias=True, exclude_unset=True))

    def to_text(self) -> str:
        """Return the text of the file."""
        return file_text(self.to_plain())


class Metadata(Document):
    """The JSON that a safetensors file carries beside its arrays.

    There a number may be infinite, and stays one.
    """

    def to_plain(self) -> dict[str, Any]:
        """Return the fields that were given, as the file holds them."""
        return self.model_dump(by_alias=True, exclude_unset=True)


def file_text(document: dict[str, Any]) -> str:
    """Return the text of a file that people may read: indented, one line feed at its end."""
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """Return a value in JSON's own types.

    NaN becomes null, infinity a word, and an object that JSON does not know its string.
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, float) and math.isinf(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def _known(value: Any) -> Any:
    """Return None for NaN, which JSON cannot say, and every other value as it is."""
    return None if isinstance(value, float) and math.isnan(value) else value


Number = Annotated[float | None, BeforeValidator(_known)]
"""A number; None where it is not known."""

FreeValue = Annotated[JsonValue, BeforeValidator(plain)]
"""A value of any form, such as a parameter of a method."""


def _written(value: Any) -> Any:
    """Return a value as JSON gives it back: a tuple is a list, and infinity stays a number."""
    return json.loads(json.dumps(value))


WrittenValue = Annotated[JsonValue, BeforeValidator(_written)]
"""A value of any form in the metadata of a safetensors file."""


def read_document(
    model: type[Model],
    data: str | bytes,
    where: str | os.PathLike[str],
    what: str,
    remedy: str,
    *,
    newest: int | None = None,
    infinite: bool = False,
) -> Model:
    """Return the document that JSON holds; raise an ArtefactError that names file and field.

    what: "the file of an evaluation". remedy: what to do about a file that is not whole. newest:
    the newest format that can be read. infinite: whether NaN and infinity are legal.
    """
    try:
        found = parse_json(data, infinite=infinite)
        if newest is not None:
            _require_known_format(where, found, newest)
        return model.model_validate(found)
    except ValidationError as error:
        reason = first_error(error)
    except (ValueError, RecursionError) as error:
        reason = f"not JSON: {error}"
    raise ArtefactError(f"{where} is not {what}, or damaged ({reason}); {remedy}")


def validated(model: type[Model], found: Any) -> Model:
    """Return the document that plain values describe; raise a ValueError that names the field."""
    try:
        return model.model_validate(found)
    except ValidationError as error:
        raise ValueError(first_error(error)) from None


def _require_known_format(where: str | os.PathLike[str], found: Any, newest: int) -> None:
    """Raise for a document of a newer equipoise, whose fields may be others."""
    version = found.get("format") if isinstance(found, dict) else None
    if isinstance(version, int):
        require_format(where, version, newest)


def first_error(error: ValidationError) -> str:
    """Return the first thing that is wrong: which field, what it holds, and what is legal."""
    first = error.errors(include_url=False)[0]
    field = ".".join(map(str, first["loc"]))
    if first["type"] == "missing":
        return f"the field {field} is missing"
    message = first["msg"].removeprefix("Value error, ")  # pydantic's name for an error of ours
    message = message[:1].lower() + message[1:]
    if not field:
        return message
    return f"the field {field} is {_shown(first['input'])}: {message}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
