"""``export_onnx``: turn a torch encoder into a folder that onnxruntime runs without torch."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from equipoise._artefact import sha256
from equipoise.encoders._encoder import Encoder
from equipoise.encoders._wrapping import WrappedEncoder
from equipoise.errors import EquipoiseError, InputError, MissingExtraError

AGREE = 1e-4  # largest 1 - cosine between torch and ONNX that is let through
CHECK_TEXTS = (
    "a photo of a person",
    "a doctor and a nurse talk in front of a hospital",
    "a",
    "an old woman who smiles, seen from afar",
)


def export_onnx(
    encoder: Encoder | WrappedEncoder, folder: str | os.PathLike[str], *, opset: int = 20
) -> Path:
    """Write ``encoder`` to ``folder``, for ``load_encoder("onnx:FOLDER")``.

    encoder: one of hf:, or such an encoder that ``wrap`` returned. The graphs take bytes and tokens
    and return unit rows; the graphs of a wrapped encoder return debiased rows. Before the folder
    appears under its name, texts and images are encoded both ways, and a difference of more than
    1e-4 in cosine is an error.
    """
    towers = getattr(getattr(encoder, "encoder", encoder), "towers", None)
    tokenizer = getattr(getattr(towers, "tokenizer", None), "backend_tokenizer", None)
    if towers is None or tokenizer is None or not hasattr(towers, "padding"):
        raise InputError(
            f"{encoder!r} cannot be exported; pass an encoder of hf: with a fast tokenizer, or one"
            " that wrap returned for such an encoder"
        )
    if towers.preprocess is None:
        raise InputError(
            f"{encoder.id} prepares images in a way that is not resize, crop and normalise, so it"
            " cannot be exported"
        )
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not empty; pass a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as place:
        work = Path(place) / "onnx"
        work.mkdir()
        _write_graphs(encoder.module, towers, work, opset)
        tokenizer.save(str(work / "tokenizer.json"))
        _write_settings(encoder, towers, work)
        _check(encoder, towers, work)
        if folder.exists():
            folder.rmdir()
        shutil.move(work, folder)
    return folder


def _write_graphs(module: Any, towers: Any, folder: Path, opset: int) -> None:
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
        import torch
    except ImportError as error:
        raise MissingExtraError("export_onnx", "onnx with onnxscript", "export") from error

    class ExportedGraph(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.module = module

    class ExportedImages(ExportedGraph):
        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.module.encode_image(pixels)

    class ExportedTexts(ExportedGraph):
        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return self.module.encode_text(ids, mask)

    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", max=towers.max_tokens)
    pixels = torch.zeros(2, *towers.preprocess.size, 3, dtype=torch.uint8)
    tokens = {name: tensor.cpu() for name, tensor in towers.tokenize(list(CHECK_TEXTS)).items()}
    text_axes = {0: batch} if towers.padding == "max_length" else {0: batch, 1: length}
    jobs = {
        "image.onnx": (ExportedImages(), (pixels,), ["pixels"], ({0: batch},)),
        "text.onnx": (
            ExportedTexts(),
            (tokens["input_ids"], tokens["attention_mask"]),
            ["input_ids", "attention_mask"],
            (text_axes, text_axes),
        ),
    }
    with _quiet(), _on_the_cpu(module, towers.device):
        for file, (graph, inputs, names, axes) in jobs.items():
            program = torch.onnx.export(
                graph.eval(), inputs, input_names=names, output_names=["unit_row"],
                dynamic_shapes=axes, opset_version=opset, dynamo=True, verbose=False,
            )  # fmt: skip
            if program is None:
                raise EquipoiseError(f"torch gave no graph for {file}; nothing was kept")
            program.save(str(folder / file), external_data=_large(module))


@contextmanager
def _on_the_cpu(module: Any, device: str) -> Iterator[None]:
    try:
        module.cpu()
        yield
    finally:
        module.to(device)


def _large(module: Any) -> bool:
    """Return whether weights exceed one protobuf file, and must lie in a file beside the graph."""
    return sum(tensor.nbytes for tensor in module.state_dict().values()) > 1 << 30


def _write_settings(encoder: Any, towers: Any, folder: Path) -> None:
    from equipoise.encoders._onnx import SETTINGS, ExportSettings, ImageGraph, TextGraph, seal

    settings = ExportSettings(
        id=encoder.id,
        revision=encoder.revision,
        dim=encoder.dim,
        fingerprint=encoder.fingerprint,
        text=TextGraph(
            max_tokens=towers.max_tokens,
            pad_id=towers.tokenizer.pad_token_id or 0,
            pad_to_end=towers.padding == "max_length",
            padding_side=towers.tokenizer.padding_side,
        ),
        image=ImageGraph(preprocess=towers.preprocess.to_json()),
        sha256={path.name: sha256(path) for path in sorted(folder.iterdir())},
    )
    settings.seal = seal(settings)
    (folder / SETTINGS).write_text(settings.model_dump_json(indent=1))


def _check(encoder: Any, towers: Any, folder: Path) -> None:
    from equipoise.encoders._encoder import Encoder
    from equipoise.encoders._onnx import load

    ours = Encoder(load(str(folder), device="cpu"), batch_size=3, workers=0)
    ours.towers.repeatable = False  # in batches, as it runs on a GPU
    rng = np.random.default_rng(0)
    height, width = towers.preprocess.size
    pictures = [rng.integers(0, 256, (height + 7, width + 30, 3), dtype=np.uint8) for _ in range(4)]
    long = " ".join(f"person {i}" for i in range(towers.max_tokens))
    before, towers.precision = towers.precision, "float32"  # that of the graphs
    try:
        for kind, method, items in (
            ("texts", "encode_text", [*CHECK_TEXTS, long]),
            ("images", "encode_images", pictures),
        ):
            with _quiet():
                expected = getattr(encoder, method)(items)
                got = getattr(ours, method)(items)
            error = float((1 - (expected * got).sum(1)).max())
            if not error <= AGREE:
                raise EquipoiseError(
                    f"the exported graph does not agree with {encoder.id} on {kind}: 1 - cosine"
                    f" reaches {error:.1e}; nothing was kept"
                )
    finally:
        towers.precision = before


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence remarks on operators that are not used here, and on texts that are cut on purpose."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
