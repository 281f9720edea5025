"""Stage 4: the shipped folder.

One file of weights, matrices as bytes with a scale a row, which torch and both ONNX graphs read.

python -m training.export --work WORK --out NAME --version 1.0
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import struct
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_eval

from equipoise._artefact import sha256
from equipoise.encoders import _onnx as onnx_adapter
from equipoise.encoders._onnx import SETTINGS, ExportSettings, ImageGraph, TextGraph, seal
from equipoise.encoders._preprocess import Preprocess
from equipoise_mini import PIXELS
from equipoise_mini.module import DIM, SCALE, TOKENS, WEIGHTS, ImageTower, Mini, weights
from training import zero_shot
from training.arrays import SOURCES, VALIDATION, tokenize
from training.augment import centre
from training.joint import Batches, Pair, encoded, image_tower

FOLDER = Path(__file__).parents[1] / "src" / "equipoise_mini" / "model"
OPSET = 20
TYPES = {"I8": TensorProto.INT8, "F16": TensorProto.FLOAT16, "F32": TensorProto.FLOAT}
PREPROCESS = Preprocess(size=(PIXELS, PIXELS), resize=72, scale=1 / 127.5, mean=(1.0, 1.0, 1.0))


def main() -> None:
    """Read WORK/NAME.safetensors, write the model folder of the package."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", default="joint")
    parser.add_argument("--version", required=True)
    parser.add_argument(
        "--turn",
        type=float,
        default=0.0,
        help=(
            "How far the image head turns so that the gender axes of images and of texts meet; 1 is"
            " all the way."
        ),
    )
    args = parser.parse_args()
    pair = Pair(image_tower("conv"))
    pair.load_state_dict(load_file(args.work / f"{args.out}.safetensors"))
    if args.turn:
        turn(pair.eval(), args.work, args.turn)
    model = Mini().eval()
    stored = quantised(folded(pair.eval()))
    model.load_state_dict(weights(stored))
    FOLDER.mkdir(parents=True, exist_ok=True)
    save_file(stored, FOLDER / WEIGHTS)
    write_graph(
        model,
        "encode_image",
        (torch.zeros(2, PIXELS, PIXELS, 3, dtype=torch.uint8),),
        ["pixels"],
        "image.onnx",
    )
    tokens, mask = torch.arange(14).view(2, 7), torch.ones(2, 7, dtype=torch.int64)
    write_graph(
        model,
        "encode_text",
        (tokens, mask),
        ["input_ids", "attention_mask"],
        "text.onnx",
        lengths=True,
    )
    shutil.copy(args.work / "tokenizer.json", FOLDER / "tokenizer.json")
    files = ("image.onnx", "text.onnx", "tokenizer.json", WEIGHTS)
    settings = ExportSettings(
        id="mini",
        revision=args.version,
        dim=DIM,
        text=TextGraph(max_tokens=TOKENS),
        image=ImageGraph(preprocess=PREPROCESS.to_json()),
        sha256={file: sha256(FOLDER / file) for file in files},
    )
    settings = settings.model_copy(update={"seal": seal(settings)})
    (FOLDER / SETTINGS).write_text(settings.model_dump_json(indent=1))
    check(model)


@torch.inference_mode()
def turn(pair: Pair, work: Path, share: float) -> None:
    """Rotate the image head towards the text's gender axis at work; the images' own is measured on
    the validation part of FairFace.
    """
    batches = Batches(work, (VALIDATION,), [], 1)
    rows = batches.of(SOURCES.index("fairface"), (VALIDATION,))
    images = torch.cat(
        [
            F.normalize(pair.image(centre(batches.pictures[part])), dim=-1)
            for part in rows.split(256)
        ]
    )
    gender = torch.from_numpy(zero_shot.answer(batches.labels["bits"][rows].numpy(), "gender"))
    seen = F.normalize(images[gender == 0].mean(0) - images[gender == 1].mean(0), dim=0)
    tokenizer = Tokenizer.from_file(str(work / "tokenizer.json"))
    said = torch.from_numpy(
        zero_shot.gender_axis_at_work(
            lambda texts: encoded(pair, torch.from_numpy(tokenize(tokenizer, texts))).numpy()
        )
    )
    across = F.normalize(said - (said @ seen) * seen, dim=0)
    angle = share * torch.arccos(said @ seen)
    plane = torch.stack([seen, across])
    rotation = torch.tensor([[angle.cos() - 1, -angle.sin()], [angle.sin(), angle.cos() - 1]])
    head = cast(ImageTower, pair.image).head.weight
    head += plane.T @ (rotation @ (plane @ head))
    print(
        f"cosine of the gender axes {float(said @ seen):.3f}, turned to"
        f" {math.cos(float(torch.arccos(said @ seen) - angle)):.3f}"
    )


def check(model: Mini) -> None:
    """Raise unless the graphs give what torch gives."""
    towers = onnx_adapter.load(str(FOLDER))
    pixels = np.random.default_rng(0).integers(0, 256, (4, PIXELS, PIXELS, 3), dtype=np.uint8)
    texts = ["a man", "a photo of a doctor who smiles", "a dog"]
    tokens = torch.from_numpy(
        tokenize(Tokenizer.from_file(str(FOLDER / "tokenizer.json")), texts)
    ).long()
    with torch.inference_mode():
        pairs = [(towers.image_features(pixels), model.encode_image(torch.from_numpy(pixels)))]
        pairs += [(towers.text_features(texts), model.encode_text(tokens, tokens != 0))]
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-5)


def folded(pair: Pair) -> dict[str, torch.Tensor]:
    """What is shipped of both towers, batch norms folded into the convolutions."""
    found = {f"text.{name}": tensor for name, tensor in pair.text.tower.state_dict().items()}
    for name, part in pair.image.named_modules():
        if not isinstance(part, nn.Sequential):
            continue
        first, second = part[0], part[1]
        if isinstance(first, nn.Conv2d) and isinstance(second, nn.BatchNorm2d):
            conv = fuse_conv_bn_eval(first, second)
            found |= {f"image.{name}.0.weight": conv.weight, f"image.{name}.0.bias": conv.bias}
    return found | {
        f"image.{name}": tensor
        for name, tensor in pair.image.state_dict().items()
        if name.startswith(("norm.", "head."))
    }


def quantised(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Matrices and filters as whole numbers up to 127 times a scale for each output; the rest in
    half precision.
    """
    out = {}
    for name, given in tensors.items():
        tensor = given.detach().float()
        if tensor.ndim == 1:
            out[name] = tensor.half()
            continue
        scale = (
            (tensor.flatten(1).abs().amax(1) / 127)
            .clamp(min=1e-8)
            .view(-1, *[1] * (tensor.ndim - 1))
        )
        out |= {name: (tensor / scale).round().to(torch.int8), f"{name}{SCALE}": scale}
    return out


def write_graph(
    model: nn.Module,
    method: str,
    inputs: tuple[torch.Tensor, ...],
    names: list[str],
    file: str,
    *,
    output: str = "unit_row",
    lengths: bool = False,
    stored: str = WEIGHTS,
) -> None:
    """A graph whose weights lie in the safetensors file ``stored``; lengths: the second axis varies
    too, beside the first.
    """

    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *values: torch.Tensor) -> torch.Tensor:
            return getattr(self.model, method)(*values)

    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", max=TOKENS)
    axes = [{0: batch, 1: length} if lengths else {0: batch} for _ in inputs]
    program = torch.onnx.export(
        Graph().eval(), inputs, input_names=names, output_names=[output], dynamic_shapes={"values": tuple(axes)},
        opset_version=OPSET, dynamo=True, optimize=False, verbose=False,
    )  # fmt: skip
    if program is None:
        raise RuntimeError(f"torch gave no graph for {file}")
    graph = without_traces(program.model_proto)
    refer_to_weights(
        graph, {f"model.{name}": where for name, where in places(FOLDER / stored).items()}, stored
    )
    onnx.save(graph, FOLDER / file)


def without_traces(graph: onnx.ModelProto) -> onnx.ModelProto:
    """A graph that does not tell where on whose machine each of its nodes was written."""
    inside = graph.graph
    for part in (
        graph,
        inside,
        *inside.node,
        *inside.value_info,
        *inside.initializer,
        *inside.input,
        *inside.output,
    ):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    return graph


class Place(NamedTuple):
    """Where a tensor lies in a file."""

    dtype: str
    shape: list[int]
    offset: int
    length: int


def places(path: Path) -> dict[str, Place]:
    """Of every tensor of a safetensors file."""
    with path.open("rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
    found = {}
    for name, entry in header.items():
        if name != "__metadata__":
            start, end = entry["data_offsets"]
            found[name] = Place(entry["dtype"], entry["shape"], 8 + size + start, end - start)
    return found


def refer_to_weights(graph: onnx.ModelProto, where: dict[str, Place], stored: str) -> None:
    """Replace each stored weight by a reference into the file, and what makes float32 of it;
    onnxruntime does that once, when a session starts.
    """
    kept, added, nodes = [], [], []
    for tensor in graph.graph.initializer:
        name = tensor.name
        if name not in where:
            kept.append(tensor)
            continue
        scaled = f"{name}{SCALE}" in where
        added.append(external(f"{name}.stored", where[name], stored))
        nodes.append(
            helper.make_node(
                "Cast",
                [f"{name}.stored"],
                [f"{name}.float" if scaled else name],
                to=TensorProto.FLOAT,
            )
        )
        if scaled:
            added.append(external(f"{name}{SCALE}", where[f"{name}{SCALE}"], stored))
            nodes.append(helper.make_node("Mul", [f"{name}.float", f"{name}{SCALE}"], [name]))
    nodes += graph.graph.node
    for field, values in (
        (graph.graph.initializer, [*kept, *added]),
        (graph.graph.node, nodes),
        (graph.graph.value_info, []),
    ):
        copies = [
            type(value).FromString(value.SerializeToString()) for value in values
        ]  # what is deleted below would take them along
        del field[:]
        field.extend(copies)


def external(name: str, place: Place, stored: str) -> TensorProto:
    """A tensor that lies in the weights' file."""
    tensor = TensorProto(
        name=name,
        data_type=TYPES[place.dtype],
        dims=place.shape,
        data_location=TensorProto.EXTERNAL,
    )
    for key, value in (("location", stored), ("offset", place.offset), ("length", place.length)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


if __name__ == "__main__":
    main()
