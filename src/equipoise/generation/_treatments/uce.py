"""Unified Concept Editing: a closed-form edit of the layers that read a prompt's states.

Gandikota, Orgad, Belinkov, Materzynska and Bau, WACV 2024. Each layer W that reads states (the keys
and values of cross-attention) becomes the W' that minimises

    sum_i |W' c_i - W v_i|^2 + preserve sum_j |W' c_j - W c_j|^2 + lam |W' - W|^2

where c_i are the states of prompts to debias, v_i where they should go, and c_j what should stay.
The minimiser is W' = W M with one M for all layers,

    M = (sum_i v_i c_i^T + preserve sum_j c_j c_j^T + lam I) A^-1,
    A =  sum_i c_i c_i^T + preserve sum_j c_j c_j^T + lam I,

because every target is W of some state. So M is computed once for each text encoder.

The authors add the groups' states to c_i with weights that they find by drawing pictures and asking
CLIP. Here the weights are those of least size by which no group is nearer than another in the
space of the groups' differences: no picture is drawn to fit it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.errors import InputError
from equipoise.generation._conditioning import Conditioning
from equipoise.generation._fitting import as_float64, book_of
from equipoise.generation._manifest import DrawnPicture
from equipoise.generation._mini import MiniPipeline
from equipoise.generation._treatments.treatment import DrawingRun, Treatment, Untouched
from equipoise.prompts._attribute import Attribute
from equipoise.prompts._prompt_book import PromptBook


@dataclass(frozen=True)
class Uce:
    """``uce`` as it is typed.

    preserve: the weight of what should stay. lam: how far W' stays near W, as a share of the
    states' mean squared length; the authors' 0.5 is such a share in Stable Diffusion.
    """

    preserve: float = 0.1
    lam: float = 6e-4

    @property
    def needs_pipe(self) -> bool:
        return True

    def open(self, run: DrawingRun) -> Treatment:
        """Return it at work on a run."""
        pipe = run.painter.require_pipe("uce")
        book = book_of(run.plan.book or None, run.attribute)
        return EditedLayers(run, fitted(pipe, run.attribute, book, self.preserve, self.lam))


class EditedLayers(Untouched):
    """The layers are edited while prompts are drawn that the gate does not keep."""

    def __init__(self, run: DrawingRun, editing: LayerEdit | RowEdit):
        super().__init__(run)
        self.editing: LayerEdit | RowEdit = editing

    def paint(self, pictures: Sequence[DrawnPicture]) -> np.ndarray:
        if self.run.gated(pictures[0].prompt):  # a batch is of one prompt
            return super().paint(pictures)
        with self.editing.applied():
            return super().paint(pictures)


def edit_map(
    edited: np.ndarray, targets: np.ndarray, kept: np.ndarray, preserve: float, lam: float
) -> np.ndarray:
    """Return M (d, d) of states (n, d) that go to targets (n, d), and kept states (m, d)."""
    scale = lam * float((edited * edited).sum(1).mean())
    stays = preserve * kept.T @ kept + scale * np.eye(edited.shape[1])
    return np.linalg.solve(edited.T @ edited + stays, edited.T @ targets + stays).T


def neutral_targets(states: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    """Return states (n, d) with the groups' anchors (n, groups, d) added in the least weights.

    No group's anchor is nearer to the result than another's along their differences.
    """
    targets = np.empty_like(states)
    for i, (state, groups) in enumerate(zip(states, anchors, strict=True)):
        middle = groups.mean(axis=0)
        differences = (groups - middle)[:-1]
        wanted = differences @ (middle - state)
        weights = np.linalg.pinv(differences @ groups.T) @ wanted
        targets[i] = state + weights @ groups
    return targets


def fitted(
    pipe: Any, attribute: Attribute, book: PromptBook, preserve: float, lam: float
) -> LayerEdit | RowEdit:
    """Return the edit of a pipeline: its prompts are the book's, and its anchors should stay."""
    conditioning = pipe.conditioning() if hasattr(pipe, "conditioning") else Conditioning(pipe)
    prompts = list(book.prompts)
    anchors = [book[prompt][group].anchor for prompt in prompts for group in attribute.groups]
    options = getattr(conditioning, "usual", {})
    neutral = conditioning.states(prompts, options)
    explicit = conditioning.states(anchors, options)
    maps = {}
    for part in conditioning.parts:
        rows, stated = as_float64(neutral[part]), as_float64(explicit[part])
        grouped = stated.reshape(len(prompts), len(attribute.groups), -1)
        targets = neutral_targets(rows, grouped)
        maps[part] = edit_map(rows, targets, stated, preserve, lam)
    if isinstance(pipe, MiniPipeline):
        return RowEdit(pipe, *maps.values())
    return LayerEdit(pipe, maps)


class RowEdit:
    """The embedded generator reads one row by one layer, so that M is applied to the row."""

    def __init__(self, pipe: MiniPipeline, mapped: np.ndarray):
        self.pipe, self.mapped = pipe, mapped

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Edit what prompts give; afterwards the pipeline is what it was."""
        original = self.pipe.encode_prompt

        def encode_prompt(prompt: str | Sequence[str]) -> np.ndarray:
            rows = original(prompt)
            return (rows @ self.mapped.T).astype(rows.dtype)

        self.pipe.encode_prompt = encode_prompt
        try:
            yield
        finally:
            del self.pipe.encode_prompt


class LayerEdit:
    """The keys and values of a UNet's cross-attention, multiplied by M."""

    def __init__(self, pipe: Any, maps: dict[str, np.ndarray]):
        encoders = [part for part in maps if part.startswith("text_encoder")]
        self.layers = _readers(pipe)
        width = self.layers[0].weight.shape[1]
        self.mapped = _block_diagonal([maps[part] for part in encoders])
        if len(self.mapped) != width:
            raise InputError(
                f"the cross-attention of {type(pipe).__name__} reads states {width} wide, and its"
                f" text encoders give {len(self.mapped)}; uce knows such pipelines as Stable"
                " Diffusion 1.x, 2.x and XL"
            )

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Edit the layers; afterwards their weights are what they were, bit for bit."""
        import torch

        before = [layer.weight.data for layer in self.layers]
        try:
            for layer, weight in zip(self.layers, before, strict=True):
                mapped = torch.as_tensor(self.mapped, dtype=torch.float64, device=weight.device)
                layer.weight.data = (weight.double() @ mapped).to(weight.dtype)
            yield
        finally:
            for layer, weight in zip(self.layers, before, strict=True):
                layer.weight.data = weight


def _readers(pipe: Any) -> list[Any]:
    """Return the layers that make keys and values of a prompt's states."""
    unet = getattr(pipe, "unet", None)
    found = []
    if unet is not None:
        for name, module in unet.named_modules():
            if name.endswith((".attn2.to_k", ".attn2.to_v")):
                found.append(module)
    if not found:
        raise InputError(
            f"{type(pipe).__name__} has no UNet with cross-attention, which uce edits; pass another"
            " method, such as balanced"
        )
    return found


def _block_diagonal(blocks: list[np.ndarray]) -> np.ndarray:
    from scipy.linalg import block_diag

    return np.asarray(block_diag(*blocks))
