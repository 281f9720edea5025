"""Stage 10: the generator as it is shipped, checked against torch.

python -m training.export_generator --work WORK
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from equipoise_mini import PIXELS
from equipoise_mini.drawing import GRAPH, WEIGHTS, Generator
from equipoise_mini.files import seal
from equipoise_mini.module import DIM, weights
from equipoise_mini.velocity import Velocity
from training.export import FOLDER, quantised, write_graph

TOLERANCE = 2e-3  # of velocities of size one, through eight blocks of attention in float32


def main() -> None:
    """Read WORK/generator.safetensors, write the generator's files of the package."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    args = parser.parse_args()
    stored = quantised(load_file(args.work / "generator.safetensors"))
    model = Velocity().eval()
    model.load_state_dict(weights(stored))
    save_file(stored, FOLDER / WEIGHTS)
    inputs = (torch.randn(2, 3, PIXELS, PIXELS), torch.rand(2), torch.randn(2, DIM) / DIM**0.5)
    write_graph(
        model,
        "forward",
        inputs,
        ["pictures", "times", "texts"],
        GRAPH,
        output="velocity",
        stored=WEIGHTS,
    )
    seal(FOLDER, GRAPH, WEIGHTS)
    with torch.inference_mode():
        expected = model(*inputs).numpy()
    np.testing.assert_allclose(
        Generator(FOLDER).velocity(*(value.numpy() for value in inputs)), expected, atol=TOLERANCE
    )


if __name__ == "__main__":
    main()
