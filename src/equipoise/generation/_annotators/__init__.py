"""Annotators by name: which group each picture seems to show, or "unsure".

People's answers are read from files (``labels.py``).
"""

from __future__ import annotations

from typing import Any

from equipoise.errors import InputError
from equipoise.generation._annotators.annotator import Annotator
from equipoise.prompts._attribute import Attribute

__all__ = ["KINDS", "Annotator", "load_annotator"]

KINDS = ("blip2", "encoder", "llm")


def load_annotator(spec: str, attribute: Attribute, **options: Any) -> Annotator:
    """Return an annotator by name.

    spec: "blip2:ID-or-folder", "encoder:SPEC" (any encoder of ``load_encoder``) or "llm:MODEL"
    (behind an OpenAI-compatible server). options: device and offline for models that run here;
    base_url and api_key for a server.
    """
    kind, _, name = spec.partition(":")
    if kind not in KINDS or not name:
        raise InputError(
            f"`annotator` {spec} is not legal; pass blip2:ID-or-folder, encoder:SPEC (encoder:mini)"
            " or llm:MODEL"
        )
    local: dict[str, Any] = {key: options.get(key) for key in ("device", "offline")}
    if kind == "blip2":
        from equipoise.generation._annotators.blip2 import Blip2

        return Blip2(name, attribute, **local)
    if kind == "encoder":
        from equipoise.encoders import load_encoder
        from equipoise.generation._annotators.zero_shot import ZeroShot

        return ZeroShot(load_encoder(name, **local), attribute)
    from equipoise.generation._annotators.vision_llm import VisionLLM

    return VisionLLM(
        name, attribute, base_url=options.get("base_url"), api_key=options.get("api_key")
    )
