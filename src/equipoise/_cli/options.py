"""Options that several verbs share, each declared once: an option means one thing everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

# Panels of --help. What most people type stands before them.
IMAGES = "About the images"
PROMPTS = "About prompts and methods"
FITTING = "Images to fit methods on"
MEASURING = "Measuring"
PAGE = "The page"
MACHINE = "The model and this machine"

Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="The encoder: hf:ID-or-folder, open_clip:NAME/WEIGHTS, st:ID, onnx:FOLDER, heads:FILE"
        " or mini.",
    ),
]
Attribute = Annotated[
    str | None,
    typer.Option(
        "--attribute", "-a", help='gender, age, "skin tone", race, joined with &, or a .toml file.'
    ),
]
Attributes = Annotated[
    list[str] | None,
    typer.Option(
        "--attribute",
        "-a",
        help='gender, age, "skin tone", race, joined with &, or a .toml file. Repeat for several.',
    ),
]
Prompts = Annotated[
    str | None,
    typer.Option(
        "--prompts",
        "-p",
        help=(
            "The prompts: a text file with one per line, or a prompt book; for classification, a"
            " JSON file of label to prompt."
        ),
    ),
]
Method = Annotated[
    str | None,
    typer.Option(
        "--method", help="A method, such as closed-form:kappa=inf,modality=text (see methods)."
    ),
]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        help=(
            "A method, such as closed-form:kappa=inf,modality=text (see methods). A saved"
            " operator's file works too; a|b tries both values. Repeat for more."
        ),
    ),
]
Book = Annotated[
    str | None,
    typer.Option(
        "--book",
        "-b",
        help="The prompt book to fit with: a file, or the name of a curated one.",
        rich_help_panel=PROMPTS,
    ),
]
BookOrGrammar = Annotated[
    str | None,
    typer.Option(
        "--book",
        "-b",
        help=(
            "The prompt book to fit with: a file, or the name of a curated one. grammar writes one"
            " by rule."
        ),
        rich_help_panel=PROMPTS,
    ),
]
Kappa = Annotated[
    float | None,
    typer.Option(
        help=(
            "The strength of debiasing: 0 changes nothing, 1 is the paper's balance, inf"
            " is the projection."
        ),
        rich_help_panel=PROMPTS,
    ),
]
Vectors = Annotated[
    Path | None,
    typer.Option(
        help="A .parquet, .npz or .safetensors file of text vectors, in place of a model.",
        rich_help_panel=MACHINE,
    ),
]

Force = Annotated[bool, typer.Option("--force", help="Replace what exists already.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]

Root = Annotated[
    Path | None,
    typer.Option(
        help=(
            "The folder of a known dataset, or the folder that a table's file names are"
            " relative to (by default, the table's own)."
        ),
        rich_help_panel=IMAGES,
    ),
]
Embeddings = Annotated[
    Path | None,
    typer.Option(
        help="Stored embeddings of the images: a store, or a .npy file with one row per image.",
        rich_help_panel=IMAGES,
    ),
]
PathColumn = Annotated[
    str | None,
    typer.Option(
        help="The table's column of file names; recognised by its name by default.",
        rich_help_panel=IMAGES,
    ),
]
GroupColumns = Annotated[
    list[str] | None,
    typer.Option(help="The table's column of groups. Repeat for several.", rich_help_panel=IMAGES),
]
LabelColumn = Annotated[
    str | None, typer.Option(help="The table's column of classes.", rich_help_panel=IMAGES)
]
CaptionColumn = Annotated[
    str | None, typer.Option(help="The table's column of captions.", rich_help_panel=IMAGES)
]
Column = Annotated[
    str | None, typer.Option(help="The table's column to read, if the names do not show which.")
]
Modality = Annotated[
    Literal["image", "text"] | None,
    typer.Option(help="What the rows are, images or texts, if the names do not show it."),
]

SkewAt = Annotated[
    int | None,
    typer.Option(
        "--skew-at",
        "-m",
        help=(
            "How many results MaxSkew looks at; by default 1000, or a tenth of the"
            " images if they are few."
        ),
        min=1,
        rich_help_panel=MEASURING,
    ),
]
Resamples = Annotated[
    int, typer.Option(help="Resamples of the bootstrap.", min=1, rich_help_panel=MEASURING)
]
Seed = Annotated[
    int, typer.Option(help="The seed of everything random.", min=0, rich_help_panel=MEASURING)
]
Workdir = Annotated[
    Path | None,
    typer.Option(
        help=(
            "The folder in which methods that train keep their progress, so that they can go on."
        ),
        rich_help_panel=FITTING,
    ),
]
Gate = Annotated[
    bool | None,
    typer.Option(
        "--gate/--no-gate",
        help="Leave prompts that name a group as they are.",
        rich_help_panel=PROMPTS,
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        help="The language model's server: OpenAI's by default, or any that speaks its protocol."
    ),
]

Device = Annotated[
    str | None,
    typer.Option(
        help="cuda, mps or cpu; by default the first that is available.", rich_help_panel=MACHINE
    ),
]
Dtype = Annotated[
    str | None,
    typer.Option(
        help="float32 or bfloat16; by default what suits the device.", rich_help_panel=MACHINE
    ),
]
Batch = Annotated[
    int | None,
    typer.Option(
        "--batch-size",
        help="How many items the model takes at once; 64 by default.",
        min=1,
        rich_help_panel=MACHINE,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(help="How many processes decode pictures; 0 for none.", rich_help_panel=MACHINE),
]
Offline = Annotated[
    bool | None,
    typer.Option(
        "--offline/--online",
        help="Read local files only; by default, as HF_HUB_OFFLINE says.",
        rich_help_panel=MACHINE,
    ),
]
