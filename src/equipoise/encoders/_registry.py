"""The adapters, by the scheme of a spec.

Other packages join through the entry point group ``equipoise.encoders``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from equipoise._near_names import nearest
from equipoise.errors import InputError, MissingExtraError

GROUP = "equipoise.encoders"
OURS = {"hf": "hf", "open_clip": "open_clip", "st": "st", "onnx": "onnx", "heads": "heads"}
MINI = "mini"

Load = Callable[..., Any]


def schemes() -> list[str]:
    """Return every scheme that ``load_encoder`` knows."""
    ours = [*OURS, MINI]
    others = [point.name for point in entry_points(group=GROUP) if point.name not in ours]
    return [*ours, *sorted(others)]


def find(spec: str) -> tuple[Load, str]:
    """Return the adapter's ``load`` and the name to call it with."""
    if not isinstance(spec, str):
        raise InputError(
            f"an encoder's name was given as {type(spec).__name__}; pass a str, such as"
            " 'hf:openai/clip-vit-base-patch32'"
        )
    scheme, colon, name = spec.partition(":")
    if spec == MINI:
        folder = _mini_folder()
        return import_module("equipoise.encoders._mini").load, folder
    if scheme in OURS and name:
        return import_module(f"equipoise.encoders._{OURS[scheme]}").load, os.path.expanduser(name)
    for point in entry_points(group=GROUP):
        if point.name == scheme:
            return point.load(), name
    raise InputError(_unknown(spec, scheme, bool(colon and name)))


def _unknown(spec: str, scheme: str, whole: bool) -> str:
    known = schemes()
    if scheme in known:
        return f"{spec!r} names no model; write {scheme}:NAME or {scheme}:FOLDER"
    legal = ", ".join(name if name == MINI else f"{name}:" for name in known)
    advice = nearest(scheme, known)
    if "/" in spec and not whole:
        advice = f"; did you mean hf:{spec}?"
    return f"{spec!r} starts with no known scheme; legal are {legal}{advice}"


def _mini_folder() -> str:
    try:
        return str(import_module("equipoise_mini").FOLDER)
    except ImportError:
        raise MissingExtraError("the embedded encoder 'mini'", "equipoise-mini", "mini") from None
