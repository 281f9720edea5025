"""Which adapter a spec's scheme names.

Other packages join through the entry point group ``equipoise.encoders``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from equipoise.encoders._names import nearest
from equipoise.errors import InputError, MissingExtraError

GROUP = "equipoise.encoders"
OURS = {"hf": "hf", "open_clip": "open_clip", "st": "st", "onnx": "onnx"}
MINI = "mini"

Load = Callable[..., Any]


def schemes() -> list[str]:
    """Every scheme that ``load_encoder`` knows."""
    return [
        *OURS,
        MINI,
        *sorted(
            point.name for point in entry_points(group=GROUP) if point.name not in (*OURS, MINI)
        ),
    ]


def find(spec: str) -> tuple[Load, str]:
    """The adapter's ``load`` and the name to give it."""
    if not isinstance(spec, str):
        raise InputError(
            "an encoder is named by a str such as 'hf:openai/clip-vit-base-patch32', and this is"
            f" {type(spec).__name__}"
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
    legal = ", ".join(f"{name}:" if name != MINI else name for name in known)
    advice = nearest(scheme, known) if whole or "/" not in spec else f"; did you mean hf:{spec}?"
    return f"{spec!r} starts with no known scheme; legal are {legal}{advice}"


def _mini_folder() -> str:
    try:
        return str(import_module("equipoise_mini").FOLDER)
    except ImportError:
        raise MissingExtraError("the embedded encoder 'mini'", "equipoise-mini", "mini") from None
