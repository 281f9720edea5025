"""Which tensors of a pipeline's conditioning follow the prompt, found by calling ``encode_prompt``.

Two prompts are encoded, then again in the other order. What stays the same does not follow the
prompt. What changes places with the prompts are their rows. Anything else that changes cannot be
followed, and the pipeline is refused. Which encoder and which argument a region comes from is found
in the same way: by giving one encoder its tokens in reverse, or one argument its prompts in the
other order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from equipoise.errors import InputError
from equipoise.generation._outputs import LIST, Path, RowsSlot, at, is_tensor, nodes, place
from equipoise.generation._text_encoders import TextEncoders

# Prompts that begin differently, of different lengths: what they share is not of the prompt.
UNLIKE = ("3 cats", "the sea at night, seen from a small boat under a grey sky")
# Of one length for every tokenizer: what changes between them is not a length.
ALIKE = ("a photo of 3 cats", "a photo of 4 cats")
ROUNDING = 1e-3  # of a column's largest entry
POOLED = "pooled"
# CLIP is trained to gather a text in its end token; other encoders have no such token.
ENDS_GATHER = ("clip_text_model",)

Encode = Callable[[Mapping[str, Sequence[str]], int], Any]
"""(argument -> texts, copies) -> what encode_prompt returns."""


@dataclass(frozen=True)
class ConditioningPart:
    """A region of the conditioning that one encoder writes.

    Its rows lie in ``slot``; of a row it is a layer (None where layers are not stacked), tokens
    from ``first`` (to ``last``; None: to the end) and columns. ``mask``: where the mask of its
    tokens lies. ``fixed``: how many tokens at the beginning of a text are the same for every
    prompt; ``fixed_padding``: whether padding before the text is. ``tiled``: whether the copies of
    a prompt lie a batch apart, and not side by side.
    """

    name: str
    slot: RowsSlot
    encoder: str
    argument: str
    columns: slice
    layer: int | None = None
    first: int = 0
    last: int | None = None
    pooled: bool = False
    mask: RowsSlot | None = None
    fixed: int = 0
    fixed_padding: bool = True
    gathers: bool = False
    tiled: bool = False

    @property
    def width(self) -> int:
        """Return the width of a state."""
        return self.columns.stop - self.columns.start

    def states(self, row: Any) -> Any:
        """Return the states (tokens, width) of a row, as a view; of a pooled one, (1, width)."""
        if self.layer is not None:
            row = row[self.layer]
        if self.pooled:
            row = row[None]
        return row[self.first : self.last, self.columns]


@dataclass(frozen=True)
class ConditioningLayout:
    """The parts of a conditioning. called: encoder -> which of its calls reads the prompt.

    overhead: encoder -> tokens that the pipeline puts around a prompt. steady: whether every text
    gives as many tokens, so that batches do not change states. size: bytes of one prompt's states.
    """

    parts: tuple[ConditioningPart, ...]
    called: Mapping[str, int]
    overhead: Mapping[str, int]
    steady: bool
    size: int


@dataclass(frozen=True)
class Region:
    """A rectangle of a row: tokens and columns."""

    tokens: tuple[int, int]
    columns: tuple[int, int]


class Finder:
    """Finds the layout of one pipeline, for one set of options."""

    def __init__(
        self,
        kind: str,
        encode: Encode,
        arguments: Sequence[str],
        encoders: TextEncoders,
        stacked: int,
    ):
        self.kind, self.encode, self.arguments = kind, encode, list(arguments)
        self.encoders, self.stacked = encoders, stacked
        self.plain = self._encoded(UNLIKE)
        self.seen = dict(encoders.seen)
        self.swapped = self._encoded(UNLIKE[::-1])
        self.called = self._called(dict(encoders.seen))

    def layout(self) -> ConditioningLayout:
        """Return the layout; raise where something follows the prompt that cannot be edited."""
        self._require_no_tokens()
        slots, masks = self._slots()
        if not slots:
            raise InputError(
                f"nothing that encode_prompt of {self.kind} returns follows the prompt; attach has"
                " nothing to edit"
            )
        copies = self._encoded(UNLIKE, 2)
        parts = []
        for slot in slots:
            tiled = self._tiled(slot, copies)
            mask = self._mask_of(slot, masks)
            parts += [
                ConditioningPart(tiled=tiled, mask=mask, **about) for about in self._parts_of(slot)
            ]
        named = _named(parts)
        return ConditioningLayout(
            tuple(self._beginning(part) for part in named),
            self.called,
            self._overheads(),
            self._is_steady(slots),
            sum(_bytes(row) for slot in slots for row in slot.rows(self.plain)) // len(UNLIKE),
        )

    def _encoded(self, texts: Sequence[str], copies: int = 1) -> Any:
        return self.encode(dict.fromkeys(self.arguments, texts), copies)

    def _called(self, seen: Mapping[str, list[Any]]) -> dict[str, int]:
        """Return encoder -> the number of its call whose tokens change places with the prompts."""
        found = {}
        for name, calls in self.seen.items():
            for i, ids in enumerate(calls):
                again = seen[name][i]
                if len(ids) == len(UNLIKE) and not ids.equal(again) and ids.flip(0).equal(again):
                    found[name] = i
                    break
        return found

    def _require_no_tokens(self) -> None:
        """Raise where whole numbers follow the words of a prompt: they are its tokens."""
        one, other = self._encoded(ALIKE), self._encoded(ALIKE[::-1])
        for path, value in nodes(one):
            if is_tensor(value) and _is_counting(value) and not value.equal(at(other, path)):
                raise self._refused(path, "holds whole numbers that follow the words of a prompt")

    def _slots(self) -> tuple[list[RowsSlot], list[RowsSlot]]:
        """Return where the states of prompts lie, and where their masks do."""
        slots: list[RowsSlot] = []
        masks: list[RowsSlot] = []
        for path, value in nodes(self.plain):
            if any(path[: len(slot.path)] == slot.path for slot in slots):
                continue
            again = at(self.swapped, path)
            if _are_rows(value, again):
                slots.append(RowsSlot(path, LIST))
            elif not is_tensor(value) or _same(value, again):
                continue
            elif _is_counting(value):
                if _changes_places(value, again, 0):
                    masks.append(RowsSlot(path, 0))
            else:
                slots.append(RowsSlot(path, self._axis(path, value, again)))
        return slots, masks

    def _axis(self, path: Path, value: Any, again: Any) -> int:
        for axis in range(value.ndim):
            if _changes_places(value, again, axis):
                return axis
        raise self._refused(path, "changes with the prompts, but not row by row")

    def _mask_of(self, slot: RowsSlot, masks: Sequence[RowsSlot]) -> RowsSlot | None:
        """Return where the mask of a slot's tokens lies: the first after it that fits them."""
        row = slot.rows(self.plain)[0]
        for mask in masks:
            size = at(self.plain, mask.path)[0].numel()
            if row.ndim > 1 and mask.path > slot.path and size % row.shape[-2] == 0:
                return mask
        return None

    def _tiled(self, slot: RowsSlot, output: Any) -> bool:
        """Return whether the copies of a prompt lie a batch apart in a slot, and not side by side.

        Kandinsky 5 has both, in two tensors.
        """
        rows, copies = slot.rows(self.plain), slot.rows(output)
        if len(copies) == len(rows):
            return False
        for tiled, order in ((False, (0, 0, 1, 1)), (True, (0, 1, 0, 1))):
            if len(copies) == len(order) and all(
                _same(copy, rows[i]) for copy, i in zip(copies, order, strict=True)
            ):
                return tiled
        raise self._refused(slot.path, "does not show which copies are of which prompt")

    def _parts_of(self, slot: RowsSlot) -> list[dict[str, Any]]:
        """Return what the parts of a slot are, without names."""
        rows = slot.rows(self.plain)
        row = rows[0]
        if row.ndim not in (1, 2, 3):
            raise self._refused(slot.path, f"has rows of {row.ndim} axes; 1, 2 and 3 are known")
        pooled = row.ndim == 1
        layers: list[int | None] = list(range(len(row))) if row.ndim == 3 else [None]
        found = []
        for name, region in self._regions(slot).items():
            whole = region is None
            tokens = (0, None) if region is None else region.tokens
            columns = (0, row.shape[-1]) if region is None else region.columns
            about = {
                "slot": slot,
                "encoder": name,
                "argument": self._argument(slot, region),
                "first": tokens[0],
                "last": tokens[1],
                "pooled": pooled,
                "gathers": not pooled and self.encoders.kind(name) in ENDS_GATHER,
            }
            cut = _cut(columns, self.stacked if whole and not pooled else 1)
            for layer in layers:
                for i, piece in enumerate(cut):
                    called = _layer_name(name, layer, i, len(cut))
                    found.append({"name": called, **about, "columns": piece, "layer": layer})
        return found

    def _regions(self, slot: RowsSlot) -> dict[str, Region | None]:
        """Return encoder -> the region of a slot's rows that it writes; None for the whole row."""
        names = list(self.seen)
        if len(names) == 1:
            return {names[0]: None}
        changed = {}
        for name in names:
            with self.encoders.scrambled(name):
                output = self._encoded(UNLIKE)
            support = self._support(slot, output)
            if support.any():
                changed[name] = support
        if not changed:
            raise self._refused(slot.path, "follows the prompt, but through no text encoder")
        if len(changed) == 1:
            return {next(iter(changed)): None}
        regions: dict[str, Region | None] = {}
        covered = self._support(slot, self.swapped)
        for name, support in changed.items():
            regions[name] = region = _bounds(support)
            inside = _inside(region)
            for other, its in changed.items():
                if other != name and its[inside].any():
                    raise self._refused(slot.path, f"mixes what {name} and {other} give")
            covered[inside] = False
        if covered.any():
            raise self._refused(slot.path, "follows the prompt where no text encoder was found")
        return regions

    def _argument(self, slot: RowsSlot, region: Region | None) -> str:
        """Return the argument whose prompts a region follows."""
        if len(self.arguments) == 1:
            return self.arguments[0]
        found = []
        for name in self.arguments:
            texts: dict[str, Sequence[str]] = dict.fromkeys(self.arguments, UNLIKE)
            texts[name] = UNLIKE[::-1]
            support = self._support(slot, self.encode(texts, 1))
            if region is not None:
                support = support[_inside(region)]
            if support.any():
                found.append(name)
        if len(found) != 1:
            raise self._refused(slot.path, f"follows {' and '.join(found) or 'no prompt'} at once")
        return found[0]

    def _support(self, slot: RowsSlot, output: Any) -> Any:
        """Return where (tokens, columns) the rows of an output differ from the plain one's.

        Layers are taken together; a pooled row is one token.
        """
        pairs = zip(slot.rows(self.plain), slot.rows(output), strict=True)
        each = [_changed(row, again) for row, again in pairs]
        longest = max(len(changed) for changed in each)
        support = each[0].new_zeros((longest, each[0].shape[1]))
        for changed in each:
            support[: len(changed)] |= changed
        return support

    def _beginning(self, part: ConditioningPart) -> ConditioningPart:
        """Return a part that knows which tokens are the same for every prompt."""
        if part.pooled:
            return part
        rows = part.slot.rows(self.plain)
        each = [part.states(row) for row in rows]
        kept = [
            kept_tokens(part, self.plain, i, len(states), self._text_tokens(part.encoder))
            for i, states in enumerate(each)
        ]
        begins = [int(which.int().argmax()) for which in kept]
        texts = [states[begin:] for states, begin in zip(each, begins, strict=True)]
        least = min(len(texts[0]), len(texts[1]))
        differs = _differs(texts[0][:least], texts[1][:least]).any(-1)
        fixed = int(differs.int().argmax()) if differs.any() else 0
        padded = min(begins)
        same = padded == 0 or _same(each[0][:padded], each[1][:padded])
        return replace(part, fixed=fixed, fixed_padding=same)

    def _text_tokens(self, name: str) -> Any:
        """Return which tokens (2, tokens) of the probes an encoder reads; None if not known."""
        if name not in self.called:
            return None
        return self.encoders.kept(name, self.seen[name][self.called[name]])

    def _overheads(self) -> dict[str, int]:
        found = {}
        for name in self.called:
            tokenizer = self.encoders.tokenizer(name)
            kept = self._text_tokens(name)
            if tokenizer is not None and kept is not None:
                alone = len(tokenizer(UNLIKE[0]).input_ids)
                found[name] = int(kept[0].sum()) - alone
        return found

    def _is_steady(self, slots: Sequence[RowsSlot]) -> bool:
        alone = self._encoded(UNLIKE[:1])
        for slot in slots:
            if slot.axis is LIST:
                continue
            if slot.rows(alone)[0].shape != slot.rows(self.plain)[0].shape:
                return False
        return True

    def _refused(self, path: Path, why: str) -> InputError:
        return InputError(
            f"attach cannot follow the prompt in {self.kind}: {place(path)} {why}. Editing the rest"
            " alone would leave the attribute there, so this pipeline is refused"
        )


def kept_tokens(
    part: ConditioningPart, output: Any, row: int, length: int, text_tokens: Any
) -> Any:
    """Return which tokens (length,) of a row are of the text, as booleans on the CPU.

    They are those that the mask keeps; without one, those that were no padding when the encoder
    read them. text_tokens: which those are, (1, tokens) or more rows, the last ones of which the
    part holds; None if not known.
    """
    import torch

    if part.mask is not None and (mask := at(output, part.mask.path)) is not None:
        tokens = part.slot.rows(output)[row].shape[-2]
        of_row = mask[row].detach().cpu().reshape(tokens, -1)
        return (of_row != 0).any(-1)[part.first : part.last]
    if part.slot.axis is LIST or text_tokens is None or text_tokens.shape[1] < length:
        return torch.ones(length, dtype=torch.bool)
    return text_tokens[row, -length:]


def _is_counting(value: Any) -> bool:
    """Return whether a tensor counts or masks: whole numbers, or zeros and ones."""
    if not value.is_floating_point():
        return True
    return bool(((value == 0) | (value == 1)).all())


def _are_rows(value: Any, again: Any) -> bool:
    """Return whether a list holds a tensor per prompt, which change places with the prompts."""
    if not isinstance(value, (list, tuple)) or len(value) != len(UNLIKE):
        return False
    if not all(map(is_tensor, [*value, *again])) or any(map(_is_counting, value)):
        return False
    first, second = value
    return _same(first, again[1]) and _same(second, again[0]) and not _same(first, second)


def _changes_places(value: Any, again: Any, axis: int) -> bool:
    return value.shape[axis] == len(UNLIKE) and _same(value.flip(axis), again)


def _differs(a: Any, b: Any) -> Any:
    """Return where two tensors of one shape differ by more than rounding explains."""
    import torch

    a, b = a.detach().float(), b.detach().float()
    columns = torch.maximum(a.abs(), b.abs()).reshape(-1, a.shape[-1]).amax(0)
    return ~((a - b).abs() <= ROUNDING * columns)  # not a number differs from everything


def _changed(row: Any, again: Any) -> Any:
    """Return where (tokens, columns) a row differs from another: everywhere, if in its shape."""
    differs = row.detach().abs() >= 0
    if row.shape == again.shape:
        differs = _differs(row, again)
    if row.ndim == 1:
        return differs[None]
    return differs.reshape(-1, *differs.shape[-2:]).any(0)


def _same(a: Any, b: Any) -> bool:
    if a.shape != b.shape:
        return False
    return a.numel() == 0 or not bool(_differs(a, b).any())


def _bounds(support: Any) -> Region:
    """Return the smallest region that holds everything that is true in (tokens, columns)."""
    tokens, columns = (support.any(axis).nonzero().flatten() for axis in (1, 0))
    return Region((int(tokens[0]), int(tokens[-1]) + 1), (int(columns[0]), int(columns[-1]) + 1))


def _inside(region: Region) -> tuple[slice, slice]:
    return slice(*region.tokens), slice(*region.columns)


def _cut(columns: tuple[int, int], pieces: int) -> list[slice]:
    """Return columns from first to last as pieces of one width."""
    first, last = columns
    width = (last - first) // pieces
    return [slice(first + i * width, first + (i + 1) * width) for i in range(pieces)]


def _layer_name(encoder: str, layer: int | None, piece: int, pieces: int) -> str:
    if layer is not None:
        return f"{encoder}.layer-{layer}"
    return f"{encoder}.layer-{piece}" if pieces > 1 else encoder


def _named(parts: Sequence[ConditioningPart]) -> list[ConditioningPart]:
    """Return parts with names of their own; the pooled embedding is "pooled" where there is one."""
    pooled = [part for part in parts if part.pooled]
    taken: set[str] = set()
    found = []
    for part in parts:
        name = part.name
        if part.pooled:
            name = POOLED if len(pooled) == 1 else name.replace("text_encoder", POOLED)
        if name in taken:
            name = f"{name}.{'.'.join(map(str, part.slot.path))}"
        taken.add(name)
        found.append(replace(part, name=name))
    return found


def _bytes(row: Any) -> int:
    return row.numel() * row.element_size()
