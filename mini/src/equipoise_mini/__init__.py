"""equipoise-mini: a compact vision-language model of people, a generator that its texts condition,
and a gallery that this one drew.

``equipoise.load_encoder("mini")`` runs the model on onnxruntime.
"""

# ruff: noqa: E402 - the switch comes before all else
from __future__ import annotations

from equipoise_mini import telemetry

telemetry.switch_off()

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from equipoise_mini.drawing import Sampler
    from equipoise_mini.module import Mini

__all__ = ["FOLDER", "KNOWS", "NOTICE", "Gallery", "gallery", "generator", "torch_model"]

FOLDER = Path(__file__).parent / "model"
PIXELS = 64
NOTICE = (
    "equipoise-mini's weights are for non-commercial research, demonstration and teaching, "
    "because some of the photographs that it learned from are (see its LICENSE)."
)
KNOWS = (
    "It knows faces and people at work, in English: perceived gender, age, race, hair, glasses,"
    " hats, smiles, ten occupations by sight, many more by text alone. Other prompts get an"
    " embedding too, from text associations that no photograph has corrected."
)


def torch_model() -> Mini:
    """Return the same weights as a torch module, gradients included: ``encode_image(bytes or
    floats)``, ``encode_text(ids, mask)``.
    """
    from equipoise_mini.module import load

    return load(FOLDER)


class Gallery(NamedTuple):
    """table: a parquet file, a line a picture of somebody who does not exist.

    figures: how it was drawn and chosen, how far its classifier errs.
    """

    table: Path
    figures: dict[str, Any]

    def drawn_with(self, seed: int) -> dict[str, Any]:
        """Return the guidance and steps of the picture that has this seed, as ``sample`` takes
        them.
        """
        for some in self.figures["drawn with"]:
            if some["first seed"] <= seed <= some["last seed"]:
                return {"guidance": some["guidance"], "steps": some["steps"]}
        raise ValueError(f"no picture of the gallery has seed {seed}; take one from its table")


def gallery() -> Gallery:
    """Return more than a thousand small pictures, each with its prompt, its seed and the groups
    that an independent classifier perceives.
    """
    import json

    from equipoise_mini.files import require

    table, figures = "gallery.parquet", "gallery.json"
    require(FOLDER, table, figures)
    return Gallery(FOLDER / table, json.loads((FOLDER / figures).read_text()))


def generator(threads: int | None = None, device: str | None = None) -> Sampler:
    """Return what draws pictures of text rows: ``generator().sample(encoder.encode_text(["a photo
    of a doctor"]), seeds=[0])``.

    On onnxruntime, with so many threads; with a device such as "cuda" in torch, in half precision.
    """
    if device not in (None, "cpu"):
        from equipoise_mini.torch_drawing import TorchGenerator

        return TorchGenerator(FOLDER, device)
    from equipoise_mini.drawing import Generator

    return Generator(FOLDER, threads)
