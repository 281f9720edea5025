"""Options that several verbs share."""

from __future__ import annotations

from typing import Annotated

import typer

Model = Annotated[
    str,
    typer.Option(
        "--model",
        help="The encoder: hf:ID-or-folder, open_clip:NAME/WEIGHTS, st:ID, onnx:FOLDER or mini.",
    ),
]
Device = Annotated[
    str | None, typer.Option(help="cuda, mps or cpu; the first that is here by default.")
]
Dtype = Annotated[
    str | None, typer.Option(help="float32 or bfloat16; what the device is good at by default.")
]
Batch = Annotated[int | None, typer.Option(help="Items encoded at once; 64 by default.")]
Workers = Annotated[int | None, typer.Option(help="Processes that decode pictures; 0 for none.")]
Offline = Annotated[
    bool | None,
    typer.Option(
        "--offline/--online", help="Read local files only; as HF_HUB_OFFLINE says by default."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
