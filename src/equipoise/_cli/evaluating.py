"""The options that ``evaluate`` and ``compare`` share, declared once, and what is made of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from equipoise._cli import options

if TYPE_CHECKING:
    from equipoise.evaluation import Evaluation, EvaluationRun

Dataset = Annotated[
    str | None,
    typer.Argument(
        help=(
            "celeba, facet, flickr30k, coco2017, fairface, utkface, waterbirds or fiftyone"
            " (with --root); a .csv, .tsv or .parquet table with one row per image; a folder;"
            " or nothing, if --embeddings has the columns."
        ),
        show_default=False,
    ),
]
Task = Annotated[
    Literal["classification", "retrieval"],
    typer.Option("--task", "-t", help="What to do with the images."),
]
Books = Annotated[
    list[str] | None,
    typer.Option(
        "--book",
        "-b",
        help=(
            "The prompt book to fit with: a file, or the name of a curated one. grammar"
            " writes one by rule. Several books become part of the grid."
        ),
        rich_help_panel=options.PROMPTS,
    ),
]
Template = Annotated[
    str | None,
    typer.Option(
        help="The prompt of a class, with {} for its name; 'a photo of a/an {}' by default.",
        rich_help_panel=options.PROMPTS,
    ),
]
Positive = Annotated[
    str | None,
    typer.Option(
        help="The one class to measure by binary F1 and its own equal opportunity.",
        rich_help_panel=options.MEASURING,
    ),
]
FitShare = Annotated[
    float | None,
    typer.Option(
        help="Hold out this share of the images to fit methods on; it is not measured.",
        rich_help_panel=options.FITTING,
    ),
]
FitDataset = Annotated[
    str | None,
    typer.Option(
        help="Another dataset to fit methods on, with the same columns.",
        rich_help_panel=options.FITTING,
    ),
]
FitRoot = Annotated[
    Path | None, typer.Option(help="The --root of --fit-dataset.", rich_help_panel=options.FITTING)
]
FitEmbeddings = Annotated[
    Path | None,
    typer.Option(help="The --embeddings of --fit-dataset.", rich_help_panel=options.FITTING),
]
Protocol = Annotated[
    Literal["paper", "released", "mended"],
    typer.Option(
        help=(
            "paper: the paper's text. released: the code that made its tables. mended:"
            " that code without its mistakes."
        ),
        rich_help_panel=options.MEASURING,
    ),
]
RecallAt = Annotated[
    list[int] | None,
    typer.Option(
        "--recall-at",
        "-k",
        help="How many results recall looks at; 5 and 10 by default. Repeat for several.",
        min=1,
        rich_help_panel=options.MEASURING,
    ),
]
Over = Annotated[
    Literal["images", "queries", "both"],
    typer.Option(help="What is resampled for retrieval.", rich_help_panel=options.MEASURING),
]
Permutations = Annotated[
    int,
    typer.Option(
        help="Shuffles of the labels for the floor of a skew.",
        min=1,
        rich_help_panel=options.MEASURING,
    ),
]
Level = Annotated[
    float, typer.Option(help="The level of the intervals.", rich_help_panel=options.MEASURING)
]
Interval = Annotated[
    Literal["centred", "percentile", "bca", "basic"],
    typer.Option(
        help="The kind of interval; only a centred one always contains its value.",
        rich_help_panel=options.MEASURING,
    ),
]
Probed = Annotated[
    int,
    typer.Option(
        "--probe",
        help="The most images that the leakage probe uses; 0 for no probe.",
        min=0,
        rich_help_panel=options.MEASURING,
    ),
]
OnMissing = Annotated[
    Literal["raise", "drop"],
    typer.Option(
        help="Missing image files are an error (raise), or are left out and counted (drop).",
        rich_help_panel=options.IMAGES,
    ),
]
OnUnreadable = Annotated[
    Literal["skip", "raise"],
    typer.Option(
        help="Unreadable images are left out and counted (skip), or are an error (raise).",
        rich_help_panel=options.IMAGES,
    ),
]
OnePerson = Annotated[
    Path | None,
    typer.Option(
        help="Flickr30K: a text file of the images that show one person.",
        rich_help_panel=options.IMAGES,
    ),
]
Export = Annotated[
    list[Path] | None,
    typer.Option(help="Also write the table: *.csv, *.md or *.tex. Repeat for several."),
]


@dataclass(frozen=True)
class TypedEvaluation:
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
    method: options.Methods = None,
    model: options.Model = None,
    attribute: options.Attribute = None,
    prompts: options.Prompts = None,
    export: Export = None,
    embeddings: options.Embeddings = None,
    root: options.Root = None,
    path_column: options.PathColumn = None,
    label_column: options.LabelColumn = None,
    group_columns: options.GroupColumns = None,
    caption_column: options.CaptionColumn = None,
    on_missing: OnMissing = "raise",
    on_unreadable: OnUnreadable = "skip",
    one_person: OnePerson = None,
    book: Books = None,
    template: Template = None,
    gate: options.Gate = False,
    fit_share: FitShare = None,
    fit_dataset: FitDataset = None,
    fit_root: FitRoot = None,
    fit_embeddings: FitEmbeddings = None,
    workdir: options.Workdir = None,
    protocol: Protocol = "mended",
    positive: Positive = None,
    m: options.SkewAt = None,
    recall_at: RecallAt = None,
    over: Over = "images",
    resamples: options.Resamples = 1000,
    permutations: Permutations = 200,
    level: Level = 0.95,
    interval: Interval = "centred",
    probe: Probed = 2000,
    seed: options.Seed = 0,
    vectors: options.Vectors = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    batch_size: options.Batch = None,
    workers: options.Workers = None,
    offline: options.Offline = None,
) -> TypedEvaluation:
    """Check what is cheap to check; nothing is read yet."""
    from equipoise._verbs.evaluate import EvaluationRequest, LabelledSource
    from equipoise.evaluation import Settings
    from equipoise.evaluation import _tables as tables

    tables.check_paths(export or [])
    settings = Settings(
        protocol=protocol,
        m=m,
        ks=tuple(recall_at or (5, 10)),
        gate=bool(gate),
        over=over,
        resamples=resamples,
        permutations=permutations,
        level=level,
        interval=interval,
        seed=seed,
        probe=probe,
    )
    reading = {
        "path_column": path_column,
        "label_column": label_column,
        "caption_column": caption_column,
        "group_columns": group_columns or (),
        "on_missing": on_missing,
        "one_person": one_person,
    }
    request = EvaluationRequest(
        task,
        measured=LabelledSource(dataset, root, embeddings, **reading),
        fitting=LabelledSource(fit_dataset, fit_root, fit_embeddings, **reading),
        fit_share=fit_share,
        on_unreadable=on_unreadable,
        model=model,
        vectors=vectors,
        attribute=attribute,
        book=next(iter(book or []), None),
        prompts=prompts,
        template=template,
        positive=positive,
    )

    def evaluation(workdir: Path | None) -> Evaluation:
        loading = {"device": device, "dtype": dtype, "batch_size": batch_size}
        return request.evaluation(settings, workdir, workers=workers, offline=offline, **loading)

    labelled = fit_share is not None or bool(request.fitting)
    return TypedEvaluation(
        task, method or [], book or [], labelled, workdir, export or [], evaluation
    )


def with_shared(verb: Callable[..., None]) -> Callable[..., None]:
    """Return the verb with the shared options added; it is called with a ``Given`` and its own."""
    own = list(inspect.signature(verb, eval_str=True).parameters.values())[1:]

    def command(**typed: Any) -> None:
        given = {name: value for name, value in typed.items() if name not in mine}
        verb(shared(**given), **{name: typed[name] for name in mine})

    mine = {parameter.name for parameter in own}
    parameters = [*own, *inspect.signature(shared, eval_str=True).parameters.values()]
    kind = inspect.Parameter.KEYWORD_ONLY
    signature = inspect.Signature([parameter.replace(kind=kind) for parameter in parameters])
    command.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
    command.__name__, command.__doc__ = verb.__name__, verb.__doc__
    return command


def export(runs: list[EvaluationRun], paths: list[Path]) -> None:
    """Write the tables that were asked for."""
    from equipoise.evaluation import _tables as tables

    for path in paths:
        tables.export(runs, path)


def show(runs: list[EvaluationRun], heading: str, as_json: bool, paths: list[Path]) -> None:
    """Write the tables that were asked for, then print JSON or the tables."""
    import json

    from equipoise._cli.printing import say, table_console
    from equipoise.evaluation import _tables as tables

    export(runs, paths)
    if as_json:
        found = [run.to_plain() for run in runs]
        say(json.dumps(found if heading else found[0], indent=1, ensure_ascii=False))
        return
    console = table_console()
    console.print(heading + tables.summary(runs[0]), markup=False, highlight=False, soft_wrap=True)
    for table in tables.rich_tables(runs):
        console.print(table)
