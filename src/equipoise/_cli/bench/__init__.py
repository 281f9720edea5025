"""``equipoise bench``: tables of ratios, for people or as JSON; one file per table."""

from __future__ import annotations

import typer

from equipoise._cli.bench.annotate import annotate
from equipoise._cli.bench.apply import apply
from equipoise._cli.bench.audit import audit
from equipoise._cli.bench.balance import balance
from equipoise._cli.bench.bootstrap import bootstrap
from equipoise._cli.bench.encode import encode
from equipoise._cli.bench.everything import everything
from equipoise._cli.bench.explore import explore
from equipoise._cli.bench.kernel import kernel
from equipoise._cli.bench.methods import methods
from equipoise._cli.bench.retrieval import retrieval
from equipoise._cli.grammar import Verb

app = typer.Typer(
    pretty_exceptions_show_locals=False,
)
app.callback(invoke_without_command=True)(everything)
app.command(cls=Verb)(kernel)
app.command(cls=Verb)(encode)
app.command(cls=Verb)(bootstrap)
app.command(cls=Verb)(apply)
app.command(cls=Verb)(retrieval)
app.command(cls=Verb)(balance)
app.command(cls=Verb)(methods)
app.command(cls=Verb)(audit)
app.command(cls=Verb)(annotate)
app.command(cls=Verb)(explore)
