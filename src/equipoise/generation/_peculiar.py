"""What cannot be found by calling ``encode_prompt``, for the few pipelines that need it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Peculiarity:
    """What is particular to a class of pipelines.

    layers: the option of ``encode_prompt`` that lists the layers whose states lie side by side in a
    token's columns; each layer gets a space of its own. rewrites: the method that writes prompts
    anew before they are encoded; the gate goes by the prompt that the user wrote.
    """

    layers: str | None = None
    rewrites: str | None = None


_LAYERS = "text_encoder_out_layers"
_KNOWN = {
    "Flux2Pipeline": Peculiarity(layers=_LAYERS, rewrites="upsample_prompt"),
    "Flux2KleinPipeline": Peculiarity(layers=_LAYERS),
    "ErnieImagePipeline": Peculiarity(rewrites="_enhance_prompt_with_pe"),
    "LongCatImagePipeline": Peculiarity(rewrites="rewire_prompt"),
}


def peculiarity(pipe: Any) -> Peculiarity:
    """Return what is particular to a pipeline: that of the nearest class that is known."""
    for kind in type(pipe).__mro__:
        if kind.__name__ in _KNOWN:
            return _KNOWN[kind.__name__]
    return Peculiarity()
