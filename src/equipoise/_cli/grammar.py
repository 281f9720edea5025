"""The grammar of the command line: what is read is positional, what is written is ``--out``.

Old spellings are answered with the new one, and parameters in errors are shown as options.
"""

from __future__ import annotations

import re
import sys
from difflib import get_close_matches
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

NOW_FIRST = "now the first argument, without a name"
OLD_SPELLINGS: dict[str, dict[str, str]] = {
    "audit": {
        "--images": NOW_FIRST,
        "--places": "now --first",
    },
    "evaluate": {"--images": "now --root", "--fit-images": "now --fit-root"},
    "compare": {"--images": "now --root", "--fit-images": "now --fit-root"},
    "fit": {"-m": "now --model"},
    "apply": {"--method": "now --operator"},
    "generate": {
        "--model": "now --pipeline",
        "--prompts": NOW_FIRST,
        "-p": NOW_FIRST,
        "--images": "now --per-prompt",
        "--replace": "now --redraw",
    },
    "prompts write": {"--model": "now --llm", "--replace": "now --force"},
    "annotate export": {"--gold": "now --only-gold"},
    "annotate import": {"--replace": "now --force"},
    "bench kernel": {"--size": "now --mebibytes"},
    "bench encode": {"--images": "now --count"},
    "bench apply": {"--rows": "now --count"},
    "bench retrieval": {"--images": "now --count"},
    "bench balance": {"--images": "now --count"},
    "bench methods": {"--rows": "now --count"},
    "bench audit": {"--images": "now --count", "--prompts": "now --prompt-count"},
    "bench annotate": {"--images": "now --count", "--annotators": "now --people"},
}
# Words that people try and that are no verbs, with what does what they ask for.
NO_VERBS = {
    "search": "To search in Python: eq.search(...). In the browser: equipoise explore.",
    "debias": "To debias stored embeddings: equipoise apply. An array in Python: eq.debias(...).",
    "certify": "In Python: eq.certify(...). equipoise apply writes a certificate of its own.",
    "help": "Type equipoise --help, or equipoise VERB --help.",
    "version": "Type equipoise --version.",
}
ALIKE = 0.65  # how like a verb a word must be, from 0 to 1, to be taken for a typing error
BACKTICKED = re.compile(r"`([a-z_]+)`")
ASSIGNED = re.compile(r"\b([a-z_]+)='?([^\s';]*)'? is not legal")


class Verbs(TyperGroup):
    """The verbs. A word that is none is answered with the nearest verb, or with what does that."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        word, known = args[0], self.list_commands(ctx)
        if word not in known and not word.startswith("-"):
            ctx.fail(f"No such command {word!r}.{_meant(word, known)}")
        return super().resolve_command(ctx, args)


def _meant(word: str, verbs: list[str]) -> str:
    """Return what somebody may have meant by a word that is no verb; "" where nothing is near."""
    near = get_close_matches(word, [*verbs, *NO_VERBS], n=1, cutoff=ALIKE)
    if not near:
        return ""
    if near[0] in NO_VERBS:
        return f" {NO_VERBS[near[0]]}"
    return f" Did you mean {near[0]!r}?"


class Verb(TyperCommand):
    """A command that answers an old spelling with the new one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = {name for param in self.params for name in [*param.opts, *param.secondary_opts]}
        old = OLD_SPELLINGS.get(_words(ctx), {})
        for arg in args:
            name = arg.split("=", 1)[0]
            if name in old and name not in known:
                raise typer.BadParameter(f"{name} is {old[name]}; see {ctx.command_path} --help")
        if "--out" in known:
            ctx.allow_extra_args = True
        rest = super().parse_args(ctx, args)
        if "--out" in known and ctx.args:
            raise typer.BadParameter(
                f"{ctx.args[0]} is one argument too many; what is written is named with --out"
            )
        return rest


def _words(ctx: Any) -> str:
    """Return the words that name a command, without the program: "bench audit"."""
    words: list[str] = []
    while ctx.parent is not None:
        words.insert(0, ctx.info_name)
        ctx = ctx.parent
    return " ".join(words)


def as_options(message: str, app: typer.Typer, typed: list[str]) -> str:
    """Return the message with `parameters` as the options of the command that was typed."""
    command = _command(typer.main.get_command(app), typed)
    shown = {param.name: _shown(param) for param in getattr(command, "params", [])}

    def named(found: re.Match[str]) -> str:
        return shown.get(found[1], found[1])

    def assigned(found: re.Match[str]) -> str:
        if found[1] not in shown:
            return found[0]
        return f"{shown[found[1]]} {found[2]} is not legal"

    return ASSIGNED.sub(assigned, BACKTICKED.sub(named, message))


def _command(command: Any, typed: list[str]) -> Any:
    """Follow the words that were typed down to the command that ran."""
    for word in typed:
        if not isinstance(command, TyperGroup):
            break
        usual = command.commands.get(getattr(command, "default_verb", ""), command)
        command = command.commands.get(word, usual)
    return command


def _shown(param: Any) -> str:
    """Return how a user types a parameter: its longest option, or its name in capitals."""
    options = [name for name in param.opts if name.startswith("-")]
    return max(options, key=len) if options else str(param.name).upper()


def typed_words() -> list[str]:
    """Return the words of the command line."""
    return sys.argv[1:]
