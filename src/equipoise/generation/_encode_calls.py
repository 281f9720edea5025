"""Calls of a pipeline's ``encode_prompt``: what is asked for, and how to ask for texts of our own.

Nothing is known by the pipeline's class: arguments are told by their names.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

from equipoise.errors import InputError

PROMPT = "prompt"
COPIES = ("num_images_per_prompt", "num_videos_per_prompt")
GUIDANCE = "do_classifier_free_guidance"
_PROMPTS = re.compile(r"prompt(_\d+)?")
# Arguments that say where, how often and how wide, and not what the states are.
_ASIDE = ("device", "dtype", "batch_size", GUIDANCE, *COPIES)
_PLAIN = (bool, int, float, str, type(None))


class EncodeCalls:
    """The arguments of one pipeline's ``encode_prompt``.

    prompts: the arguments that hold prompts, ``prompt`` first. options: those that change the
    states, with their defaults.
    """

    def __init__(self, pipe: Any, encode: Callable[..., Any]):
        self._pipe = pipe
        self._signature = inspect.signature(encode)
        parameters = self._signature.parameters
        self.prompts: list[str] = [name for name in parameters if _PROMPTS.fullmatch(name)]
        self.copies: str | None = next((name for name in COPIES if name in parameters), None)
        self.options: dict[str, inspect.Parameter] = {
            name: each for name, each in parameters.items() if self._is_option(each)
        }
        self._require(pipe)

    def given(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return name -> value of a call's arguments."""
        return dict(self._signature.bind(*args, **kwargs).arguments)

    def arguments(
        self,
        texts: Mapping[str, Sequence[str]],
        options: Mapping[str, Any],
        copies: int = 1,
        guided: bool = False,
    ) -> dict[str, Any]:
        """Return the arguments of a call for texts. texts: argument -> one text per row."""
        # A list for each argument: some pipelines write into it.
        asked: dict[str, Any] = {name: list(rows) for name, rows in texts.items()}
        known = {
            "device": getattr(self._pipe, "_execution_device", None),
            "batch_size": len(next(iter(texts.values()))),
            GUIDANCE: guided,
        }
        for name, value in known.items():
            if name in self._signature.parameters:
                asked[name] = value
        if self.copies is not None:
            asked[self.copies] = copies
        return {**asked, **options}

    def usual(self) -> dict[str, Any]:
        """Return the options that the pipeline's own call gives, where they are not the default."""
        found = {}
        called = inspect.signature(type(self._pipe).__call__).parameters
        for name, option in self.options.items():
            value = called[name].default if name in called else option.default
            if value is not inspect.Parameter.empty and value != option.default:
                found[name] = value
        return found

    def options_of(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a call that are not the default; raise unless they are plain."""
        found = {}
        for name, option in self.options.items():
            value = given.get(name, option.default)
            if not _is_plain(value):
                raise InputError(
                    f"encode_prompt was given {name}={type(value).__name__}, and spaces are fitted"
                    " for prompts alone; leave it out, or remove the hook"
                )
            if value != option.default:
                found[name] = value
        return found

    def prompts_of(self, given: Mapping[str, Any]) -> dict[str, list[str]] | None:
        """Return argument -> prompts; None where embeddings were passed in their place."""
        embedded = [name for name in given if _is_embedded(name) and given[name] is not None]
        if given.get(PROMPT) is None:
            return None
        if embedded:
            raise InputError(
                f"{embedded[0]} was given beside a prompt, so that a part of the conditioning would"
                " be edited and a part not; pass prompts alone, or embeddings alone"
            )
        first = _listed(given[PROMPT])
        found = {}
        for name in self.prompts:
            rows = _listed(given.get(name) or first)
            found[name] = rows * len(first) if len(rows) == 1 else rows
        return found

    def _is_option(self, parameter: inspect.Parameter) -> bool:
        name = parameter.name
        variadic = parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        aside = name in _ASIDE or name in self.prompts or name.startswith("negative")
        return not (variadic or aside or "embeds" in name or "mask" in name)

    def _require(self, pipe: Any) -> None:
        kind = type(pipe).__name__
        if PROMPT not in self.prompts:
            raise InputError(
                f"encode_prompt of {kind} takes no prompt; its arguments are"
                f" {', '.join(self._signature.parameters)}, and attach does not know which is one"
            )
        for name, option in self.options.items():
            if option.default is inspect.Parameter.empty:
                raise InputError(
                    f"encode_prompt of {kind} also requires {name!r}, and the states of a book's"
                    " texts are not known without it; attach cannot be fitted on this pipeline"
                )


def is_negative(caller: FrameType, given: Mapping[str, Any]) -> bool:
    """Return whether a pipeline encodes its negative prompt by a call of its own.

    Flux, Qwen-Image and Kandinsky 5 do. The caller knows the value by a name: ``negative_prompt``.
    """
    values = [given.get(PROMPT)]
    if values[0] is None:
        values = [value for name, value in given.items() if _is_embedded(name)]
    names = [
        name
        for name, value in caller.f_locals.items()
        if value is not None and any(value is each for each in values)
    ]
    return bool(names) and all(name.startswith("negative") for name in names)


def _is_embedded(name: str) -> bool:
    return "embeds" in name and "mask" not in name and not name.startswith("negative")


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return isinstance(value, _PLAIN)


def _listed(prompt: Any) -> list[str]:
    return [prompt] if isinstance(prompt, str) else list(prompt)
