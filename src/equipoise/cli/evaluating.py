"""The options that ``evaluate`` and ``compare`` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Dataset = Annotated[
    str | None,
    typer.Argument(
        help="celeba, facet, flickr30k, coco2017, fairface, utkface, waterbirds (with --root); a .csv, .tsv or .parquet table with a row "
        "an image; a folder; or nothing, where --embeddings has the columns."
    ),
]
Task = Annotated[Literal["classification", "retrieval"], typer.Option("--task", "-t", help="What to do with the images.")]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        help="A method, such as closed-form or closed-form:kappa=inf,modality=text; or a saved operator's file. Repeat for more.",
    ),
]
Model = Annotated[
    str | None, typer.Option("--model", help="The encoder: hf:ID-or-folder, open_clip:NAME/WEIGHTS, st:ID, onnx:FOLDER or mini.")
]
Vectors = Annotated[Path | None, typer.Option(help="In place of a model: a .parquet, .npz or .safetensors file of text vectors.")]
Embeddings = Annotated[
    Path | None, typer.Option(help="Stored embeddings of the images: a store's folder, or a .npy file with a row an image.")
]
Root = Annotated[Path | None, typer.Option(help="The folder of a known dataset.")]
Images = Annotated[Path | None, typer.Option(help="The folder that a table's file names are relative to; the table's own by default.")]
LabelColumn = Annotated[str | None, typer.Option(help="The table's column of classes.")]
GroupColumns = Annotated[list[str] | None, typer.Option(help="The table's column of groups; repeat for an intersection.")]
CaptionColumn = Annotated[str | None, typer.Option(help="The table's column of captions, each a query for its image.")]
Attribute = Annotated[
    str | None, typer.Option("--attribute", "-a", help="gender, age, ... or a .toml file; the group columns' names by default.")
]
Prompts = Annotated[
    Path | None, typer.Option(help="Classification: a JSON object of label to prompt. Retrieval: a text file of queries, one a line.")
]
Template = Annotated[str | None, typer.Option(help="A class's prompt, {} for its name: 'a photo of a/an {}' by default.")]
Positive = Annotated[str | None, typer.Option(help="The one class to measure by binary F1 and its own equal opportunity.")]
Protocol = Annotated[Literal["paper", "released"], typer.Option(help="The paper's text, or the released code that made its tables.")]
M = Annotated[int | None, typer.Option("-m", help="Places that MaxSkew looks at; 1000, or a tenth of fewer than 2,000 images.", min=1)]
K = Annotated[list[int] | None, typer.Option("-k", help="Places that recall looks at; repeat for several. 5 and 10 by default.", min=1)]
Gate = Annotated[bool, typer.Option("--gate", help="Leave prompts that name a group as they are.")]
Over = Annotated[Literal["images", "queries", "both"], typer.Option(help="What is resampled for retrieval.")]
Resamples = Annotated[int, typer.Option(help="Resamples of the bootstrap.", min=1)]
Interval = Annotated[Literal["percentile", "bca", "basic"], typer.Option(help="Kind of interval.")]
Seed = Annotated[int, typer.Option(help="Of resamples and permutations.")]
OnMissing = Annotated[Literal["raise", "drop"], typer.Option(help="Image files that are not there: an error, or left out and counted.")]
OnUnreadable = Annotated[Literal["skip", "raise"], typer.Option(help="Images that cannot be read: left out and counted, or an error.")]
OnePerson = Annotated[Path | None, typer.Option(help="Flickr30K: a text file of the images that show one person.")]
Export = Annotated[list[Path] | None, typer.Option(help="Also write the table: *.csv, *.md or *.tex; repeat for several.")]
