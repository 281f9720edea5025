"""Small models of open_clip with random weights, and the library itself, with what it imports."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path

import pytest

SMALL = {
    "embed_dim": 24,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 64, "patch_size": 8, "head_width": 32},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2},
}


@contextmanager
def import_open_clip():
    """open_clip, or a skip."""
    torch = pytest.importorskip("torch")
    # torchvision from PyPI expects operators of a CUDA build; models need none of them, only that they are declared.
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import open_clip

    yield open_clip
    del library


def save_folder(open_clip, path: Path) -> Path:
    """Write a small model as open_clip does: weights and a configuration."""
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    folder = path / "folder"
    folder.mkdir()
    settings = {"model_cfg": SMALL, "preprocess_cfg": {}}
    (folder / "open_clip_config.json").write_text(json.dumps(settings))
    weights = open_clip.CLIP(**SMALL).state_dict()
    contiguous = {name: tensor.contiguous().clone() for name, tensor in weights.items()}
    save_file(contiguous, folder / "open_clip_model.safetensors")
    return folder
