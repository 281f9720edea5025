"""The command line: one file per verb, no logic in it."""

from __future__ import annotations

import io
import sys
import warnings
from typing import Any

import typer

from equipoise._cli import annotate, bench, cache, prompts
from equipoise._cli.apply import apply
from equipoise._cli.audit import audit
from equipoise._cli.compare import compare
from equipoise._cli.crash import crash_report
from equipoise._cli.doctor import doctor
from equipoise._cli.embed import embed
from equipoise._cli.evaluate import evaluate
from equipoise._cli.explore import explore
from equipoise._cli.fit import fit
from equipoise._cli.generate import generate
from equipoise._cli.grammar import Verb, Verbs, as_options, typed_words
from equipoise._cli.methods import methods
from equipoise._cli.printing import say
from equipoise._cli.report import report
from equipoise._version import __version__
from equipoise.errors import EquipoiseError

app = typer.Typer(
    name="equipoise",
    cls=Verbs,
    help="Remove social bias from vision-language embeddings in closed form.",
    pretty_exceptions_enable=False,  # typer's tracebacks can show the values of variables
    pretty_exceptions_show_locals=False,
    no_args_is_help=True,
)
app.command(cls=Verb)(audit)
app.command(cls=Verb)(explore)
app.command(cls=Verb)(report)
app.add_typer(prompts.app, name="prompts")
app.command(cls=Verb)(fit)
app.command(cls=Verb)(embed)
app.command(cls=Verb)(apply)
app.command(cls=Verb)(evaluate)
app.command(cls=Verb)(compare)
app.command(cls=Verb)(methods)
app.command(cls=Verb)(generate)
app.add_typer(annotate.app, name="annotate")
app.add_typer(bench.app, name="bench")
app.add_typer(cache.app, name="cache")
app.command(cls=Verb)(doctor)


@app.callback(invoke_without_command=True)
def _root(
    version: bool = typer.Option(
        False, "--version", help="Print the version and stop.", is_eager=True
    ),
) -> None:
    if version:
        typer.echo(f"equipoise {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line.

    A user's error is a message, never a traceback, and so is a warning. A mistake of our own is a
    traceback without secrets.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # As stderr does, for a terminal that lacks a letter.
        sys.stdout.reconfigure(errors="backslashreplace")
    with warnings.catch_warnings():
        warnings.showwarning = _tell
        try:
            app()
        except (EquipoiseError, OSError) as error:
            # An OSError is a full disk, or a folder that cannot be written to.
            message = as_options(str(error), app, typed_words())
            say(f"equipoise: {message}", err=True, fg=typer.colors.RED)
            sys.exit(2)
        except Exception as error:
            typer.secho(crash_report(error), err=True)
            sys.exit(1)


def _tell(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any
) -> None:
    """Print a warning: as an error's words for users, with its place for developers."""
    source = "equipoise" if category is UserWarning else f"{filename}:{lineno}"
    say(f"{source}: {message}", err=True, fg=typer.colors.YELLOW)
