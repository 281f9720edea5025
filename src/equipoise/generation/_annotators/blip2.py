"""BLIP-2 as an annotator, as in the paper.

It is asked in words. Its answer is read by whole words, because "female" contains "male".
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from equipoise._progress import quiet_off_terminals
from equipoise.encoders._images import open_file
from equipoise.errors import InputError, MissingExtraError
from equipoise.generation._annotators.annotator import Annotator, group_in
from equipoise.prompts._attribute import Attribute

WORDS = 10  # of an answer, at most


class Blip2(Annotator):
    """Visual question answering with a BLIP-2 of transformers, greedily."""

    batch = 8

    def __init__(
        self,
        name: str,
        attribute: Attribute,
        device: str | None = None,
        offline: bool | None = None,
    ):
        super().__init__(attribute)
        try:
            import torch
            import transformers
            from transformers import AutoProcessor, Blip2ForConditionalGeneration
        except ImportError:
            raise MissingExtraError("BLIP-2", "transformers", "generation") from None
        from equipoise.encoders import _torch_towers as torch_towers

        self.name, self.device = f"blip2:{name}", torch_towers.pick_device(device)
        dtype = torch.float16 if self.device.startswith("cuda") else torch.float32
        folder, local = os.path.expanduser(name), bool(offline)
        try:
            with quiet_off_terminals(transformers.utils.logging):
                self.processor = AutoProcessor.from_pretrained(
                    folder, local_files_only=local, trust_remote_code=False
                )
                model = Blip2ForConditionalGeneration.from_pretrained(
                    folder,
                    dtype=dtype,
                    use_safetensors=True,
                    local_files_only=local,
                    trust_remote_code=False,
                )
        except Exception as error:  # loaders of damaged folders raise whatever they like
            reason = " ".join(str(error).split())[:300]
            raise InputError(
                f"{name} cannot be loaded as a BLIP-2 ({reason}); pass its id on the hub, or a"
                " folder"
            ) from None
        self.model = model.to(self.device).eval()  # pyright: ignore[reportArgumentType]

    def answers(self, images: Sequence[Path]) -> list[str]:
        import torch

        asked = [f"Question: {self.question} Answer:"] * len(images)
        inputs = self.processor(
            images=[open_file(path) for path in images],
            text=asked,
            return_tensors="pt",
            padding=True,
        )
        with torch.inference_mode():
            ids = self.model.generate(
                **inputs.to(self.device, self.model.dtype), max_new_tokens=WORDS, do_sample=False
            )
        said = self.processor.batch_decode(ids, skip_special_tokens=True)
        return [group_in(text.rpartition("Answer:")[2], self.attribute) for text in said]
