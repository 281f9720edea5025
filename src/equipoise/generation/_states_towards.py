"""Move the states of a prompt along the attribute space, as far as a group's anchor would.

In the coordinates of the space, each state moves by what separates the anchor's end state from the
prompt's. What is outside the space keeps its direction, and each state keeps its length. So the end
state has the anchor's coordinates, and all else of the prompt.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from equipoise import geometry
from equipoise._space import AttributeSpace
from equipoise.generation import _edits as edits
from equipoise.generation._attach import Attached
from equipoise.generation._conditioning import Conditioning
from equipoise.generation._edits import CLOSED_FORM, Edit
from equipoise.generation._fitting import as_float64, edits_for
from equipoise.generation._group_draws import GroupDraws
from equipoise.prompts._prompt_book import PromptBook

MOST = 0.99  # of a state's length that may lie inside the space


def moved(states: np.ndarray, basis: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Return states (k, d) whose coordinates in the basis (d, r) moved by a shift (r,).

    Directions are unit rows here: coordinates are shares of a state's length.
    """
    lengths = np.linalg.norm(states, axis=1, keepdims=True)
    rows = geometry.unit(states)
    inside = rows @ basis
    rest = geometry.unit(rows - inside @ basis.T)
    wanted = inside + shift
    sizes = np.linalg.norm(wanted, axis=1, keepdims=True)
    wanted *= np.minimum(1.0, MOST / np.maximum(sizes, geometry.TINY2))
    left = np.sqrt(1.0 - (wanted * wanted).sum(axis=1, keepdims=True))
    return (wanted @ basis.T + left * rest) * lengths


class StatesTowards:
    """A pipeline whose prompts can be moved towards a group.

    Outside ``with towards(group)`` every prompt is as it was.
    """

    def __init__(self, hook: Attached, source: _Shifts):
        self.hook: Attached = hook
        self._source = source

    @contextmanager
    def towards(self, group: str) -> Iterator[None]:
        """Move the states of prompts to a group; "" moves none."""
        self._source.group = group
        try:
            yield
        finally:
            self._source.group = ""

    def remove(self) -> None:
        """Take the hook off: the pipeline is what it was."""
        self.hook.remove()


def steer(
    pipe: Any,
    draws: GroupDraws,
    *,
    book: PromptBook | str | os.PathLike[str] | None = None,
    tokens: Any = "after-sos",
    strength: float = 1.0,
    seed: int = 0,
) -> StatesTowards:
    """Hook a pipeline; the attribute space is the closed form's, fitted on the book."""
    conditioning = pipe.conditioning() if hasattr(pipe, "conditioning") else Conditioning(pipe)
    method = edits.create(CLOSED_FORM, None, {})
    fitted = edits_for(conditioning, draws.attribute, method, book, None, None, seed)
    source = _Shifts(conditioning, fitted, draws, strength)

    def keeps(prompt: str) -> bool:
        if not source.group or draws.left_alone(prompt):
            return True
        source.prompts.add(prompt)  # the gate is asked before the edits are
        return False

    hook = Attached(conditioning, draws.attribute, source, keeps, tokens)
    return StatesTowards(hook, source)


class _Shifts:
    """The edits of each part, for the group that is set and the prompts that the gate let pass."""

    def __init__(self, conditioning: Any, fitted: Any, draws: GroupDraws, strength: float):
        self.group: str = ""
        self.prompts: set[str] = set()
        self._conditioning, self._fitted = conditioning, fitted
        self._draws, self._strength = draws, strength
        self._known: dict[tuple[str, str], dict[str, np.ndarray]] = {}
        self._spaces: dict[str, str] = {}

    def edits(self, options: Mapping[str, Any]) -> dict[str, Edit]:
        """Return part -> edit, for calls with these options."""
        fitted = self._fitted.edits(options)
        spaces = {part: edit.operator.space.fingerprint for part, edit in fitted.items()}
        if spaces != self._spaces:  # the text encoders give other states now
            self._known, self._spaces = {}, spaces
        found = {}
        for part, edit in fitted.items():
            apply = partial(self._apply, part, edit.operator.space)
            found[part] = Edit(edit.operator, apply)
        if self.group:
            self._measure(fitted, options)
        return found

    def _measure(self, fitted: Mapping[str, Edit], options: Mapping[str, Any]) -> None:
        """Note how far (r,) the group's anchor lies from each new prompt in each part's space."""
        for prompt in sorted(self.prompts):
            key = prompt, self.group
            if key in self._known:
                continue
            anchor = self._draws.anchors(prompt)[self.group]
            states = self._conditioning.states([prompt, anchor], options)
            self._known[key] = {}
            for part, edit in fitted.items():
                operator: Any = edit.operator
                inside = geometry.unit(as_float64(states[part])) @ operator.space.basis
                self._known[key][part] = self._strength * (inside[1] - inside[0])

    def _apply(self, part: str, space: AttributeSpace, states: Any, prompt: str) -> Any:
        shift = self._known[prompt, self.group][part]
        result = moved(as_float64(states), space.basis.astype(np.float64), shift)
        return _like(result, states)


def _like(rows: np.ndarray, states: Any) -> Any:
    """Return rows as an array of the framework, width and device of some states."""
    if hasattr(states, "detach"):
        import torch

        return torch.as_tensor(rows, dtype=states.dtype, device=states.device)
    return rows.astype(states.dtype)
