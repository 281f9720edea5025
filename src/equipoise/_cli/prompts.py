"""``equipoise prompts``: write, check, show and merge prompt books."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from equipoise._cli.grammar import Verb
from equipoise._cli.options import BaseUrl, Force, Json
from equipoise._cli.printing import Console, say
from equipoise._progress import reporting

if TYPE_CHECKING:
    from equipoise.prompts._prompt_book import PromptBook

app = typer.Typer(
    pretty_exceptions_show_locals=False,
    help="Write, check, show and merge prompt books.",
    no_args_is_help=True,
)

AttributeOption = Annotated[
    str,
    typer.Option(
        "--attribute",
        "-a",
        help='gender, age, "skin tone", race, joined with &, or a .toml file.',
    ),
]
NounOption = Annotated[
    list[str] | None,
    typer.Option("--person-noun", help="A further noun that names a person; repeat for several."),
]


@app.command(cls=Verb)
def write(
    prompts: Annotated[list[str] | None, typer.Argument(help="Prompts; or --from FILE.")] = None,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="The book to write; if it exists, its entries are kept."),
    ] = Path("book.json"),
    force: Force = False,
    attribute: AttributeOption = "gender",
    file: Annotated[
        Path | None, typer.Option("--from", help="A text file with one prompt per line.")
    ] = None,
    writer: Annotated[
        str, typer.Option(help="grammar (rules, offline), book (the curated ones, offline) or llm.")
    ] = "grammar",
    model: Annotated[str, typer.Option("--llm", help="llm: the model's name.")] = "",
    base_url: BaseUrl = None,
    concurrency: Annotated[int, typer.Option(help="llm: requests at a time.", min=1)] = 16,
    tries: Annotated[
        int, typer.Option(help="llm: how often validation may turn an answer away.", min=1)
    ] = 4,
    timeout: Annotated[float, typer.Option(help="llm: seconds for one request.")] = 120.0,
    temperature: Annotated[
        float | None, typer.Option(help="llm: the temperature, as the server understands it.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="The seed of everything random. llm: it is passed to the server."),
    ] = None,
    min_variants: Annotated[
        int, typer.Option(help="Variants that an entry needs. For llm.", min=0)
    ] = 5,
    cache: Annotated[
        Path | None,
        typer.Option(
            help="llm: the file that keeps answers; by default in the user's cache folder."
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Say what the run would take, and write nothing. llm: calls and tokens.",
        ),
    ] = False,
    allow_partial: Annotated[
        bool,
        typer.Option(
            "--allow-partial",
            help="Go on without prompts that lack a group. Some may not have been written.",
        ),
    ] = False,
    person_noun: NounOption = None,
    as_json: Json = False,
) -> None:
    """Write the anchors and variants of prompts for every group of an attribute.

    The key of a server is read from OPENAI_API_KEY.
    """
    from equipoise._verbs import prompts as commands

    options = {
        "model": model,
        "base_url": base_url,
        "concurrency": concurrency,
        "tries": tries,
        "timeout": timeout,
        "temperature": temperature,
        "seed": seed,
        "min_variants": min_variants,
        "cache": cache,
        "allow_partial": allow_partial,
    }
    task = commands.WritingTask.of(
        prompts or [], file, attribute, writer, person_noun or [], options
    )
    if dry_run:
        plan = task.plan()._asdict()
        typer.echo(json.dumps(plan) if as_json else commands.plan_text(plan))
        return
    with reporting("writing") as progress:
        outcome, book = task.write(out, progress, replace=force)
    if as_json:
        failures = [failure._asdict() for failure in outcome.failures]
        counts = {"asked": outcome.asked, "cached": outcome.cached, "rejected": outcome.rejected}
        typer.echo(
            json.dumps({"book": str(out), **book.statistics(), **counts, "failures": failures})
        )
    else:
        console = Console()
        if len(book):
            written = f"{out}: prompts written now: {len(outcome.book)}"
            _summary(console, book.statistics(), written)
        if outcome.asked or outcome.cached:
            console.print(
                f"{outcome.asked} requests, {outcome.cached} answers from the cache,"
                f" {outcome.rejected} texts turned away",
                style="dim",
            )
        _failures(console, outcome.failures)
    if outcome.failures and not allow_partial:
        commands.refuse_partial(outcome, out)


@app.command(cls=Verb)
def check(
    book: Annotated[str, typer.Argument(help="A book's file, or the name of a curated one.")],
    attribute: AttributeOption = "gender",
    file: Annotated[
        Path | None,
        typer.Option(
            "--from", help="A text file with one prompt per line. The book must cover them."
        ),
    ] = None,
    min_variants: Annotated[int, typer.Option(help="Variants that an entry needs.", min=0)] = 0,
    person_noun: NounOption = None,
    as_json: Json = False,
) -> None:
    """Validate a book: each text states its group and no other, and changes nothing else.

    Exits with status 1 if a text does not.
    """
    from equipoise._verbs import prompts as commands

    problems, missing, entries, skipped = commands.check_file(
        book, attribute, file, min_variants, person_noun or []
    )
    if as_json:
        found = {
            "entries": entries,
            "skipped": skipped,
            "problems": [one._asdict() for one in problems],
            "missing": [one._asdict() for one in missing],
        }
        typer.echo(json.dumps(found))
    else:
        console = Console()
        table = Table(
            "prompt",
            "group",
            "text",
            "problem",
            title=f"{len(problems)} problems in {entries} entries",
            show_lines=False,
        )
        for prompt, group, text, reason in problems[:50]:
            table.add_row(*map(escape, (prompt, group, text, reason)))
        if problems:
            console.print(table)
        else:
            console.print(f"{entries} entries checked, nothing wrong")
        for prompt, group in missing[:20]:
            console.print(f"missing: {prompt} | {group}", style="red", markup=False)
        if skipped:
            console.print(
                f"{skipped} entries are of groups of another attribute and were skipped; name it"
                " with -a"
            )
        if len(missing) > 20:
            console.print(f"and {len(missing) - 20} more are missing")
    if problems or missing:
        raise typer.Exit(1)


@app.command(cls=Verb)
def show(
    book: Annotated[
        str | None,
        typer.Argument(
            help=(
                "A book's file, or the name of a curated one; without it, the curated ones are"
                " listed."
            )
        ),
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="Only this prompt. All its texts are shown.")
    ] = None,
    texts: Annotated[
        bool,
        typer.Option(
            "--texts", help="Every text of the book, one per line: what an encoder has to encode."
        ),
    ] = False,
    diff: Annotated[
        str | None,
        typer.Option(help="Another book; show what changes from this one to that one."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Look at a book: its counts and sources, one prompt, all its texts, or how it differs."""
    from equipoise._verbs import prompts as commands
    from equipoise.prompts._prompt_book import PromptBook

    if book is None:
        _show_curated(as_json)
        return
    loaded = PromptBook.load(book)
    if texts or diff:
        lines = commands.texts(loaded) if texts else loaded.diff(PromptBook.load(diff or ""))
        say(json.dumps(lines) if as_json else "\n".join(lines))
    elif prompt:
        _show_prompt(loaded, prompt, as_json)
    else:
        _show_facts(loaded, book, as_json)


def _show_curated(as_json: bool) -> None:
    from equipoise.prompts._prompt_book import PromptBook

    names = {name: PromptBook.curated(name).statistics() for name in PromptBook.curated_names()}
    if as_json:
        typer.echo(json.dumps(names))
        return
    table = Table("book", "prompts", "groups", "texts", title="Curated books")
    for name, facts in names.items():
        groups = ", ".join(facts["groups"])
        table.add_row(name, str(facts["prompts"]), groups, str(facts["texts"]))
    Console().print(table)


def _show_prompt(book: PromptBook, prompt: str, as_json: bool) -> None:
    entries = {group: list(entry.texts) for group, entry in book[prompt].items()}
    if as_json:
        say(json.dumps(entries))
        return
    for group, said in entries.items():
        say("\n  ".join([group, *said]))


def _show_facts(book: PromptBook, name: str, as_json: bool) -> None:
    if as_json:
        sources = [source.model_dump() for source in book.sources]
        typer.echo(json.dumps({**book.statistics(), "sources": sources}))
        return
    console = Console()
    _summary(console, book.statistics(), name)
    for source in book.sources:
        facts = [f"{name} {value}" for name, value in source.model_dump().items() if value]
        console.print(", ".join(facts), style="dim", markup=False)


@app.command(cls=Verb)
def merge(
    books: Annotated[
        list[str],
        typer.Argument(
            help="Books; where two have the same prompt and group, the later one's entry is taken."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The book to write.")],
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Put books together into one."""
    from equipoise._verbs.destinations import require_free_file
    from equipoise.prompts._prompt_book import PromptBook

    require_free_file(out, force)
    first, *others = [PromptBook.load(book) for book in books]
    merged = first.merge(*others)
    merged.save(out)
    if as_json:
        typer.echo(json.dumps({"book": str(out), **merged.statistics()}))
    else:
        _summary(Console(), merged.statistics(), str(out))


def _summary(console: Console, facts: dict, title: str) -> None:
    table = Table(
        "prompts", "groups", "entries", "texts", "variants per entry", title=escape(title)
    )
    table.add_column("hash", no_wrap=True)
    spread = facts["variants"]
    variants = f"{spread['min']} to {spread['max']}, mean {spread['mean']:.1f}"
    table.add_row(
        str(facts["prompts"]),
        escape(", ".join(facts["groups"])),
        str(facts["entries"]),
        str(facts["texts"]),
        variants,
        facts["hash"],
    )
    console.print(table)


def _failures(console: Console, failures: tuple) -> None:
    for prompt, group, reason in failures[:10]:
        console.print(
            f"not written: {prompt} | {group} | {reason}", style="red", soft_wrap=True, markup=False
        )
    if len(failures) > 10:
        console.print(f"and {len(failures) - 10} more; --json lists them all")
