"""The options that ``evaluate`` and ``compare`` share, declared once, and what is made of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from equipoise._cli.options import Batch, Device, Dtype, Offline, Workers

if TYPE_CHECKING:
    from equipoise.evaluation import Evaluation

Dataset = Annotated[
    str | None,
    typer.Argument(
        help=(
            "celeba, facet, flickr30k, coco2017, fairface, utkface, waterbirds (with --root); a"
            " .csv, .tsv or .parquet table with a row an image; a folder; or nothing, where"
            " --embeddings has the columns."
        )
    ),
]
Task = Annotated[
    Literal["classification", "retrieval"],
    typer.Option("--task", "-t", help="What to do with the images."),
]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        help=(
            "A method, such as closed-form or closed-form:kappa=inf,modality=text|both; or a saved"
            " operator's file. Repeat for more."
        ),
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="The encoder: hf:ID-or-folder, open_clip:NAME/WEIGHTS, st:ID, onnx:FOLDER or mini.",
    ),
]
Vectors = Annotated[
    Path | None,
    typer.Option(
        help="In place of a model: a .parquet, .npz or .safetensors file of text vectors."
    ),
]
Embeddings = Annotated[
    Path | None,
    typer.Option(
        help=(
            "Stored embeddings of the images: a store's folder, or a .npy file with a row an image."
        )
    ),
]
Root = Annotated[Path | None, typer.Option(help="The folder of a known dataset.")]
Images = Annotated[
    Path | None,
    typer.Option(
        help="The folder that a table's file names are relative to; the table's own by default."
    ),
]
PathColumn = Annotated[
    str | None, typer.Option(help="The table's column of file names; found by its name by default.")
]
LabelColumn = Annotated[str | None, typer.Option(help="The table's column of classes.")]
GroupColumns = Annotated[
    list[str] | None, typer.Option(help="The table's column of groups; repeat for an intersection.")
]
CaptionColumn = Annotated[
    str | None, typer.Option(help="The table's column of captions, each a query for its image.")
]
Attribute = Annotated[
    str | None,
    typer.Option(
        "--attribute",
        "-a",
        help="gender, age, ... or a .toml file; the group columns' names by default.",
    ),
]
Books = Annotated[
    list[str] | None,
    typer.Option(
        "--book",
        "-b",
        help=(
            "A book's file, a curated one, or grammar; several make it a part of the grid. Found by"
            " default."
        ),
    ),
]
Prompts = Annotated[
    str | None,
    typer.Option(
        help=(
            "Classification: a JSON file of label to prompt. Retrieval: queries, as a text file"
            " with one a line, or a book."
        )
    ),
]
Template = Annotated[
    str | None,
    typer.Option(help="A class's prompt, {} for its name: 'a photo of a/an {}' by default."),
]
Positive = Annotated[
    str | None,
    typer.Option(help="The one class to measure by binary F1 and its own equal opportunity."),
]
FitShare = Annotated[
    float | None,
    typer.Option(
        help="Hold out so large a share of the images to fit methods on; it is not measured."
    ),
]
FitDataset = Annotated[
    str | None, typer.Option(help="Another dataset to fit methods on, with the same columns.")
]
FitRoot = Annotated[
    Path | None, typer.Option(help="The folder of that dataset, where it is a known one.")
]
FitImages = Annotated[
    Path | None, typer.Option(help="The folder that its table's file names are relative to.")
]
FitEmbeddings = Annotated[
    Path | None, typer.Option(help="Its stored embeddings: a store's folder or a .npy file.")
]
Workdir = Annotated[
    Path | None,
    typer.Option(help="Where methods that train keep what they have so far, and go on from."),
]
Protocol = Annotated[
    Literal["paper", "released"],
    typer.Option(help="The paper's text, or the released code that made its tables."),
]
M = Annotated[
    int | None,
    typer.Option(
        "-m",
        help="Places that MaxSkew looks at; 1000, or a tenth of fewer than 2,000 images.",
        min=1,
    ),
]
K = Annotated[
    list[int] | None,
    typer.Option(
        "-k", help="Places that recall looks at; repeat for several. 5 and 10 by default.", min=1
    ),
]
Gate = Annotated[bool, typer.Option("--gate", help="Leave prompts that name a group as they are.")]
Over = Annotated[
    Literal["images", "queries", "both"], typer.Option(help="What is resampled for retrieval.")
]
Resamples = Annotated[int, typer.Option(help="Resamples of the bootstrap.", min=1)]
Permutations = Annotated[
    int, typer.Option(help="Shuffles of the labels for the floor of a skew.", min=1)
]
Level = Annotated[float, typer.Option(help="Of the intervals.")]
Interval = Annotated[Literal["percentile", "bca", "basic"], typer.Option(help="Kind of interval.")]
Probed = Annotated[
    int,
    typer.Option(
        "--probe", help="Images that the leakage probe takes at most; 0 for no probe.", min=0
    ),
]
Seed = Annotated[
    int, typer.Option(help="Of resamples, permutations, the held-out share and training.", min=0)
]
OnMissing = Annotated[
    Literal["raise", "drop"],
    typer.Option(help="Image files that are not there: an error, or left out and counted."),
]
OnUnreadable = Annotated[
    Literal["skip", "raise"],
    typer.Option(help="Images that cannot be read: left out and counted, or an error."),
]
OnePerson = Annotated[
    Path | None, typer.Option(help="Flickr30K: a text file of the images that show one person.")
]
Export = Annotated[
    list[Path] | None,
    typer.Option(help="Also write the table: *.csv, *.md or *.tex; repeat for several."),
]


@dataclass(frozen=True)
class Given:
    """What was typed: methods and books as they are, the rest ready to make an evaluation of.

    labelled: there are images to fit on.
    """

    task: str
    methods: list[str]
    books: list[str]
    labelled: bool
    workdir: Path | None
    export: list[Path]
    evaluation: Callable[[Path | None], Evaluation]


def shared(
    dataset: Dataset = None,
    task: Task = "classification",
    method: Methods = None,
    model: Model = None,
    vectors: Vectors = None,
    embeddings: Embeddings = None,
    root: Root = None,
    images: Images = None,
    path_column: PathColumn = None,
    label_column: LabelColumn = None,
    group_columns: GroupColumns = None,
    caption_column: CaptionColumn = None,
    attribute: Attribute = None,
    book: Books = None,
    prompts: Prompts = None,
    template: Template = None,
    positive: Positive = None,
    fit_share: FitShare = None,
    fit_dataset: FitDataset = None,
    fit_root: FitRoot = None,
    fit_images: FitImages = None,
    fit_embeddings: FitEmbeddings = None,
    workdir: Workdir = None,
    protocol: Protocol = "released",
    m: M = None,
    k: K = None,
    gate: Gate = False,
    over: Over = "images",
    resamples: Resamples = 1000,
    permutations: Permutations = 200,
    level: Level = 0.95,
    interval: Interval = "percentile",
    probe: Probed = 2000,
    seed: Seed = 0,
    on_missing: OnMissing = "raise",
    on_unreadable: OnUnreadable = "skip",
    one_person: OnePerson = None,
    export: Export = None,
    device: Device = None,
    dtype: Dtype = None,
    batch_size: Batch = None,
    workers: Workers = None,
    offline: Offline = None,
) -> Given:
    """Check what is cheap to check; nothing is read yet."""
    from equipoise.evaluation import Settings
    from equipoise.evaluation import _tables as tables
    from equipoise.evaluation._commands import Request, Source

    tables.check_paths(export or [])
    settings = Settings(
        protocol,
        m,
        tuple(k or (5, 10)),
        gate,
        over,
        resamples,
        permutations,
        level,
        interval,
        seed,
        probe,
    )
    columns = {
        "path_column": path_column,
        "label_column": label_column,
        "caption_column": caption_column,
    }
    reading = {
        "group_columns": group_columns or (),
        "on_missing": on_missing,
        "one_person": one_person,
    }
    measured = Source(dataset, root, images, embeddings, **columns, **reading)
    fitting = Source(fit_dataset, fit_root, fit_images, fit_embeddings, **columns, **reading)
    wording = {
        "attribute": attribute,
        "book": next(iter(book or []), None),
        "prompts": prompts,
        "template": template,
        "positive": positive,
    }
    request = Request(task, measured, fitting, fit_share, on_unreadable, model, vectors, **wording)
    loading = {
        "device": device,
        "dtype": dtype,
        "batch_size": batch_size,
        "workers": workers,
        "offline": offline,
    }
    evaluation = lambda workdir: request.evaluation(settings, workdir, **loading)  # noqa: E731
    labelled = fit_share is not None or fit_dataset is not None or fit_embeddings is not None
    return Given(task, method or [], book or [], labelled, workdir, export or [], evaluation)


def with_shared(verb: Callable[..., None]) -> Callable[..., None]:
    """Return the verb with the shared options added; it is called with a ``Given`` and its own."""
    own = list(inspect.signature(verb, eval_str=True).parameters.values())[1:]

    def command(**typed: Any) -> None:
        verb(
            shared(**{name: value for name, value in typed.items() if name not in mine}),
            **{name: typed[name] for name in mine},
        )

    mine = {parameter.name for parameter in own}
    parameters = [*own, *inspect.signature(shared, eval_str=True).parameters.values()]
    kind = inspect.Parameter.KEYWORD_ONLY
    command.__signature__ = inspect.Signature(
        [parameter.replace(kind=kind) for parameter in parameters]
    )  # pyright: ignore[reportFunctionMemberAccess]
    command.__name__, command.__doc__ = verb.__name__, verb.__doc__
    return command


def export(runs: list[dict[str, Any]], paths: list[Path]) -> None:
    """Write the tables that were asked for."""
    from equipoise.evaluation import _tables as tables

    for path in paths:
        tables.export(runs, path)


def show(runs: list[dict[str, Any]], heading: str, as_json: bool, paths: list[Path]) -> None:
    """Write the tables that were asked for, then print JSON or the tables."""
    import json

    from equipoise._cli.printing import say, table_console
    from equipoise.evaluation import _tables as tables

    export(runs, paths)
    if as_json:
        say(json.dumps(runs[0] if not heading else runs, indent=1, ensure_ascii=False))
        return
    console = table_console()
    console.print(heading + tables.summary(runs[0]), markup=False, highlight=False, soft_wrap=True)
    for table in tables.rich_tables(runs):
        console.print(table)
