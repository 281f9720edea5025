"""``DrawingPlan``: which pictures a run draws: prompts x methods x seeds, and with what.

The same plan gives the same pictures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from equipoise._annotate.question import UNSURE
from equipoise._artefact import write_atomically
from equipoise._documents import Document, read_document
from equipoise._version import __version__
from equipoise.errors import InputError
from equipoise.generation import _treatments as treatments
from equipoise.generation._conditioning import TOKENS
from equipoise.generation._edits import NONE
from equipoise.generation._fitting import book_of
from equipoise.generation._shares import EQUAL, GroupShares, shares_of
from equipoise.methods._specs import MethodSpec
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._attribute_document import AttributeFacts
from equipoise.prompts._neutral_captions import neutralize
from equipoise.prompts._stated_groups import explicit_groups, names_person

PLAN = "run.json"
FORMAT = 1
STRIDE = 1_000_000  # seeds between one attempt and the next
PILOT = 500 * STRIDE  # seeds between a run and its pilot: what 500 attempts at a picture leave free


class Asked(Document):
    """A prompt of a plan.

    groups: those that it names. neutral: the prompt of the run that it makes explicit, or "".
    """

    prompt: str
    groups: list[str] = Field(default=[])
    neutral: str = ""

    @property
    def explicit_group(self) -> str:
        """Return the one group that the prompt names; "" where it names none or several."""
        return self.groups[0] if len(self.groups) == 1 else ""


class DrawingPlan(Document):
    """The pictures of a run, and how they are drawn.

    images: pictures per prompt and method. steps, guidance, size: None for the model's own.
    revision: of the model's weights, "" where not known. target: the shares that ``balanced`` aims
    at, as they were typed; shares: by prompt, where they are not equal.
    """

    format: int = FORMAT
    version: str = __version__
    model: str
    revision: str = ""
    attribute: list[AttributeFacts]
    prompts: list[Asked]
    methods: list[str]
    images: int = Field(ge=1, lt=STRIDE)
    seed: int = Field(default=0, ge=0)
    gate: bool = True
    tokens: str = "after-sos"
    book: str = ""
    steps: int | None = Field(default=None, ge=1)
    guidance: float | None = Field(default=None, allow_inf_nan=False)
    size: int | None = Field(default=None, ge=8, multiple_of=8)
    preset: str = ""
    target: str = EQUAL
    shares: dict[str, dict[str, float]] = Field(default={})

    @model_serializer(mode="wrap")
    def _as_before(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the fields; a plan of equal shares is written as before there were others."""
        fields = dump(self)
        if self.target == EQUAL:
            fields.pop("target", None)
            fields.pop("shares", None)
        return fields

    @property
    def neutral(self) -> list[int]:
        """Return the places of prompts that name no group."""
        return [i for i, asked in enumerate(self.prompts) if not asked.groups]

    @property
    def explicit(self) -> list[int]:
        """Return the places of prompts that name exactly one group."""
        return [i for i, asked in enumerate(self.prompts) if asked.explicit_group]

    def specs(self) -> dict[str, MethodSpec]:
        """Return label -> method."""
        return {spec.label: spec for spec in treatments.specs_of(self.methods)}

    def shares_of(self, prompt: str, attribute: Attribute) -> GroupShares:
        """Return group -> the share of a prompt's pictures that is aimed at."""
        return self.shares.get(prompt) or shares_of(EQUAL, prompt, attribute)

    def seed_of(self, number: int, attempt: int) -> int:
        """Return the seed; pictures of one number begin from the same noise everywhere."""
        return self.seed + number + attempt * STRIDE

    def pilot_seed_of(self, number: int) -> int:
        """Return the seed of a picture of a pilot, which no picture of the run has."""
        return self.seed + number + PILOT

    def place_of(self, prompt: str, method: str, number: int, attempt: int) -> str:
        """Return where a picture lies in the run's folder."""
        index = [asked.prompt for asked in self.prompts].index(prompt)
        again = f"-{attempt}" if attempt else ""
        return f"images/{slug(method)}/{index:03d}-{slug(prompt)}/{number:05d}{again}.png"

    def save(self, folder: Path) -> None:
        """Write the plan into the run's folder."""
        write_atomically(folder / PLAN, (self.model_dump_json(indent=1) + "\n").encode())

    @classmethod
    def load(cls, folder: Path) -> DrawingPlan:
        """Return the plan of a run that was begun."""
        path = folder / PLAN
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise InputError(
                f"{folder} holds no run of equipoise generate; pass the folder of one"
            ) from None
        return read_document(
            cls, data, path, "the plan of a run", "pass another folder", newest=FORMAT
        )

    def require_same(self, other: DrawingPlan, folder: Path, drawn: Iterable[str]) -> None:
        """Raise unless the folder's run is this one.

        More pictures of each may be asked for, and more methods than were ``drawn``.
        """
        free = {"version", "images", "methods", "format"}
        if not (self.revision and other.revision):
            free.add("revision")
        compared = [name for name in DrawingPlan.model_fields if name not in free]
        different = [name for name in compared if getattr(self, name) != getattr(other, name)]
        if set(drawn) - set(self.specs()):
            different.append("methods")
        if different or self.images < other.images:
            what = ", ".join(different) or "images"
            raise InputError(
                f"{folder} holds another run (what differs: {what}); pass another folder, or what"
                " that run was given"
            )


def make_plan(
    model: str,
    attribute: Attribute,
    prompts: Sequence[str],
    methods: Sequence[str],
    images: int,
    **options: Any,
) -> DrawingPlan:
    """Return a plan of these prompts, checked.

    The original model, ``none``, is always drawn, since all is compared with it.
    """
    if UNSURE in attribute.groups:
        raise InputError(
            f"a group of {attribute.name!r} is called {UNSURE!r}, which is what annotators say when"
            " they cannot tell; give the group another name"
        )
    wanted = list(dict.fromkeys(prompt.strip() for prompt in prompts if prompt.strip()))
    if not wanted:
        raise InputError("there is no prompt to draw; pass some with `prompts`, or a preset")
    specs = treatments.specs_of([NONE, *methods])
    for spec in specs:
        treatments.check(spec)
    if options.get("tokens", TOKENS[0]) not in TOKENS:
        raise InputError(
            f"tokens={options['tokens']!r} is not legal; pass one of {', '.join(TOKENS)}"
        )
    book_of(options.get("book") or None, attribute)
    labels = [spec.label for spec in specs]
    if len({slug(label) for label in labels}) < len(labels):
        raise InputError(f"two methods would share a folder: {', '.join(labels)}; leave one out")
    typed = list(dict.fromkeys([NONE, *methods]))
    prompts_asked = asked(wanted, attribute)
    shares = target_shares(options.get("target", EQUAL), prompts_asked, attribute)
    try:
        return DrawingPlan(
            model=model,
            attribute=attribute.facts(),
            prompts=prompts_asked,
            shares=shares,
            methods=typed,
            images=images,
            **options,
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(
            f"{'.'.join(map(str, first['loc']))}={first['input']!r} is not legal: {first['msg']}"
        ) from None


def asked(prompts: Sequence[str], attribute: Attribute) -> list[Asked]:
    """Return prompts with the groups that each names and the neutral prompt that it belongs to."""
    found = []
    for prompt in prompts:
        groups = explicit_groups(prompt, attribute)
        neutral = neutralize(prompt, attribute) if groups else ""
        found.append(
            Asked(prompt=prompt, groups=list(groups), neutral=neutral if neutral in prompts else "")
        )
    return found


def target_shares(
    target: str, prompts: Sequence[Asked], attribute: Attribute
) -> dict[str, GroupShares]:
    """Return prompt -> shares, for prompts about a person that name no group; {} for equal ones."""
    if target.strip() == EQUAL:
        return {}
    found = {}
    for one in prompts:
        if not one.groups and names_person(one.prompt, attribute):
            found[one.prompt] = shares_of(target, one.prompt, attribute)
    return found


def slug(text: str) -> str:
    """Return a name that every file system takes."""
    return re.sub(r"[^a-z0-9.=]+", "-", text.lower()).strip("-.")[:60] or "x"
