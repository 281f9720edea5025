"""``equipoise annotate``: people label images on a page of this machine.

Their labels are exported and imported, and their agreement is measured.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.markup import escape
from rich.table import Table
from typer.core import TyperGroup

from equipoise._cli.grammar import Verb
from equipoise._cli.options import Force, Json
from equipoise._cli.printing import Console

if TYPE_CHECKING:
    from equipoise._annotate.documents import Agreement, AgreementEstimate


class _ServeByDefault(TyperGroup):
    """``equipoise annotate FOLDER`` is ``equipoise annotate serve FOLDER``."""

    default_verb = "serve"

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:
        known = not args or args[0] in self.commands or args[0] == "--help"
        return super().parse_args(ctx, args if known else [self.default_verb, *args])


app = typer.Typer(
    pretty_exceptions_show_locals=False,
    cls=_ServeByDefault,
    help=(
        "Let people label images, in the browser: equipoise annotate FOLDER --annotators"
        " anna,ben,chris. For all options: equipoise annotate serve --help"
    ),
    no_args_is_help=True,
)

Folder = Annotated[
    Path,
    typer.Argument(help="The folder of a run of equipoise generate, or any folder of pictures."),
]
File = Annotated[
    Path | None,
    typer.Option(
        "--database", help="The file of labels; annotate.sqlite in the folder by default."
    ),
]


@app.command(cls=Verb)
def serve(
    folder: Folder,
    annotators: Annotated[
        list[str] | None,
        typer.Option(help="Who may answer: anna,ben,chris. Each gets a link of their own."),
    ] = None,
    renew: Annotated[
        list[str] | None,
        typer.Option(help="An annotator who needs a new link; the old link stops working."),
    ] = None,
    attribute: Annotated[
        str | None,
        typer.Option(
            "--attribute",
            "-a",
            help=(
                'gender, age, "skin tone", race, joined with &, or a .toml file. What is asked;'
                " gender by default."
            ),
        ),
    ] = None,
    question: Annotated[str | None, typer.Option(help="The question in your own words.")] = None,
    answer: Annotated[
        list[str] | None,
        typer.Option(help="An answer of your own; repeat for each. Unsure is always there."),
    ] = None,
    prompt: Annotated[
        list[str] | None,
        typer.Option(help="Only this prompt. Repeat for several prompts of the manifest."),
    ] = None,
    gold: Annotated[
        Path | None,
        typer.Option(help="Gold questions: a csv file with the columns image and answer."),
    ] = None,
    show_prompt: Annotated[
        bool | None,
        typer.Option(
            "--show-prompt/--blind", help="Whether annotators see the prompt; blind by default."
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            help="The address to listen on. Any other than this machine's own needs --expose."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="The port; 0 for any that is free.", min=0, max=65535)
    ] = 8765,
    expose: Annotated[bool, typer.Option("--expose", help="Let other machines in.")] = False,
    database: File = None,
    as_json: Json = False,
) -> None:
    """Serve a page where people label images. Ctrl-C stops it.

    Answers are kept, so people can go on another day.
    """
    from equipoise._annotate import serving
    from equipoise._verbs import annotate as commands

    serving.require_extra()
    asked = commands.question_of(attribute, question, answer or [])
    with commands.opened(
        folder, database, gold, question=asked, prompts=prompt, show_prompt=show_prompt
    ) as project:

        def ready(address: str) -> None:
            # Tokens are made now, when nothing can keep them from being told.
            tokens = commands.invitations(project, annotators or [], renew or [])
            links: dict[str, str | None] = {}
            for name, token in tokens.items():
                links[name] = f"{address}#token={token}" if token else None
            if as_json:
                told = {"address": address, "images": project.size(), "links": links}
                typer.echo(json.dumps(told))
            else:
                _invite(Console(), project, address, links, expose)

        serving.serve(project, host, port, expose, ready)


@app.command(cls=Verb)
def export(
    folder: Folder,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")] = Path(
        "labels.csv"
    ),
    form: Annotated[
        str | None,
        typer.Option("--format", help="csv or label-studio; by the file's name by default."),
    ] = None,
    gold: Annotated[
        bool,
        typer.Option(
            "--only-gold",
            help="Write the answers to gold questions in place of those of the study.",
        ),
    ] = False,
    configuration: Annotated[
        Path | None,
        typer.Option(help="Label Studio: write the labelling configuration to this file too."),
    ] = None,
    consensus: Annotated[
        Literal["unanimous", "majority"] | None,
        typer.Option(
            help=(
                "Write one answer per image, for an audit to read, with the number of"
                " answers. unanimous: if all agree. majority: if more than half do."
            )
        ),
    ] = None,
    force: Force = False,
    database: File = None,
) -> None:
    """Write all labels: image, annotator, answer, at; or tasks for Label Studio."""
    from equipoise._verbs import annotate as commands

    if consensus is not None:
        with commands.opened(folder, database, None, create=False) as project:
            agreed, split = commands.export_consensus(project, out, consensus, force)
        _say(f"{agreed:,} images written to {out}; {split:,} without a {consensus} answer left out")
        return
    with commands.opened(folder, database, None, create=False) as project:
        written = commands.export(project, out, form, gold, configuration, force)
    _say(f"{written:,} labels written to {out}")


@app.command("import", cls=Verb)
def import_(
    folder: Folder,
    labels: Annotated[
        Path, typer.Argument(help="A .csv file as export writes it, or the .json of Label Studio.")
    ],
    attribute: Annotated[
        str | None,
        typer.Option(
            "--attribute",
            "-a",
            help=(
                'gender, age, "skin tone", race, joined with &, or a .toml file. What was asked,'
                " where the project is new."
            ),
        ),
    ] = None,
    force: Force = False,
    database: File = None,
) -> None:
    """Import labels that were given elsewhere; a file is taken whole or not at all."""
    from equipoise._verbs import annotate as commands

    with commands.opened(
        folder, database, None, question=commands.question_of(attribute, None, [])
    ) as project:
        held, new = commands.import_labels(project, labels, force)
    _say(f"{held:,} labels in {labels}, {new:,} of them new")


@app.command(cls=Verb)
def agreement(
    folder: Folder,
    needed: Annotated[
        int | None,
        typer.Option(
            help=(
                "How many answers make an image unanimous; by default, one from every annotator."
            ),
            min=2,
        ),
    ] = None,
    regenerate: Annotated[
        Path | None,
        typer.Option(
            help=(
                "Write the images that annotators disagree on or are unsure of to this"
                " csv file, so that they can be made again."
            )
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed of everything random.")] = 0,
    database: File = None,
    as_json: Json = False,
) -> None:
    """Measure how far annotators agree, and list the images that must be made again.

    It prints unanimity, Fleiss' kappa, and how many gold questions each annotator answered right.
    """
    from equipoise._annotate.agreement import agreement as measure
    from equipoise._artefact import write_atomically
    from equipoise._verbs import annotate as commands

    with commands.opened(folder, database, None, create=False) as project:
        found = measure(project, needed=needed, seed=seed)
    if regenerate is not None:
        write_atomically(regenerate, commands.regenerate_csv(found))
    if as_json:
        typer.echo(json.dumps(found.to_plain(), indent=1))
        return
    _agreement(Console(), found)
    if regenerate is not None:
        _say(f"{len(found.regenerate):,} images to make again in {regenerate}")


def _say(text: str) -> None:
    Console().print(text, soft_wrap=True, markup=False, highlight=False)


def _invite(
    console: Console, project: Any, address: str, links: dict[str, str | None], expose: bool
) -> None:
    console.print(
        f"{project.question.text} Images: {project.size():,}", markup=False, highlight=False
    )
    for name, link in links.items():
        told = link or f"as before (for a new link: --renew {name!r})"
        console.print(f"  {name}: {told}", soft_wrap=True, markup=False, highlight=False)
    if expose:
        console.print(
            "Other machines can reach this page, unencrypted: put a server with TLS in front, and"
            " give each link to one person only.",
            style="yellow",
        )
    console.print(
        f"Serving at {address} until you press Ctrl-C.",
        style="dim",
        soft_wrap=True,
        highlight=False,
    )


def _agreement(console: Console, found: Agreement) -> None:
    for title, estimate in (("unanimous", found.unanimity), ("Fleiss' kappa", found.kappa)):
        console.print(
            f"{title}: {_estimate(estimate, found.needed)}",
            highlight=False,
            soft_wrap=True,
        )
    table = Table("", "images", "unanimous", "disagreed", "unsure", "waiting")
    for name, row in [("all", found), *((row.method, row) for row in found.methods)]:
        counts = (row.images, row.unanimous, row.disagreed, row.unsure, row.waiting)
        table.add_row(escape(name), *(f"{count:,}" for count in counts))
    console.print(table)
    table = Table("annotator", "answered", *map(escape, found.answers), "gold questions right")
    for person in found.annotators:
        gold = person.gold
        right = ""
        if gold:
            bounds = f"[{gold.low:.0%}, {gold.high:.0%}]"
            right = f"{gold.right} of {gold.asked}: {gold.share:.0%} {bounds}"
        answers = (f"{person.counts[answer]:,}" for answer in found.answers)
        table.add_row(escape(person.annotator), f"{person.answered:,}", *answers, right)
    console.print(table)


def _estimate(found: AgreementEstimate | None, needed: int) -> str:
    if found is None:
        return (
            f"no image has {needed} answers yet; where someone has left, ask for fewer with"
            " --needed"
        )
    if found.value is None:
        return f"not defined where every answer is the same ({found.n:,} images)"
    return (
        f"{found.value:.3f} \\[{found.low:.3f}, {found.high:.3f}], over {found.n:,}"
        f" images with {needed} answers or more"
    )
