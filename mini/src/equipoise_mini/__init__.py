"""equipoise-mini: a compact vision-language model of people. ``equipoise.load_encoder("mini")`` runs it on onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equipoise_mini.module import Mini

__all__ = ["FOLDER", "KNOWS", "NOTICE", "torch_model"]

FOLDER = Path(__file__).parent / "model"
PIXELS = 64
NOTICE = (
    "equipoise-mini's weights are for non-commercial research, demonstration and teaching, "
    "because some of the photographs that it learned from are (see its LICENSE)."
)
KNOWS = (
    "It knows faces and people at work, in English: perceived gender, age, race, hair, glasses, hats, smiles, ten occupations by sight, "
    "many more by text alone. Other prompts get an embedding too, from text associations that no photograph has corrected."
)


def torch_model() -> Mini:
    """The same weights as a torch module, gradients included: ``encode_image(bytes or floats)``, ``encode_text(ids, mask)``."""
    from equipoise_mini.module import load

    return load(FOLDER)
