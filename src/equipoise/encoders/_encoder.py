"""``Encoder``: texts and images in, float32 unit rows of one space out, for every adapter alike."""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from equipoise._progress import progress
from equipoise.encoders import _images as pictures
from equipoise.encoders._batching import SIZE, ShrinkingBatches
from equipoise.encoders._cache import EmbeddingCache, image_keys, text_keys
from equipoise.encoders._decoding import decode
from equipoise.encoders._images import UnreadableImageError
from equipoise.encoders._passes import cores
from equipoise.encoders._protocols import OnUnreadable
from equipoise.encoders._towers import Modality, TextTower, Towers
from equipoise.errors import ArtefactError, EquipoiseError, InputError

WINDOW = 4096  # texts sorted by length at a time
LOOKUP = 64  # items looked up in the cache at a time
MOST_WHOLE = 16  # images in a batch for models that prepare them by themselves


class Unreadable(NamedTuple):
    """An image that could not be decoded: its place in the input, its name and why."""

    index: int
    name: str
    reason: str


@dataclass
class Report:
    """What the last call of an encoder met."""

    items: int = 0
    from_cache: int = 0
    damaged: int = 0  # rows of the cache that were not what was put there
    truncated: int = 0
    unreadable: list[Unreadable] = field(default_factory=list)


class Encoder:
    """An encoder that ``load_encoder`` makes: ``encode_text`` and ``encode_images``.

    ``report`` tells of the last call: how many items there were, how many came from the cache and
    how many were damaged there, how many texts were longer than the model reads, and which images
    could not be decoded.
    """

    def __init__(
        self,
        towers: Towers,
        *,
        batch_size: int | None = None,
        workers: int | None = None,
        cache: EmbeddingCache | None = None,
        show_progress: bool | None = None,
    ):
        if workers is not None and (not isinstance(workers, int) or workers < 0):
            raise InputError(
                f"workers={workers!r} is not legal; pass a whole number from 0 (decode in this"
                " process), or None"
            )
        self.towers = towers
        self.workers: int = _default_workers(towers.device) if workers is None else workers
        self.cache = cache
        self.show_progress = show_progress
        self.report: Report = Report()
        # Whole images are of any size, so their number is what bounds memory.
        images_at_once = MOST_WHOLE if towers.preprocess is None else SIZE
        self._batches = {
            "text": ShrinkingBatches(batch_size),
            "image": ShrinkingBatches(batch_size, images_at_once),
        }

    @property
    def id(self) -> str:
        return self.towers.id

    @property
    def revision(self) -> str:
        return self.towers.revision

    @property
    def dim(self) -> int:
        return self.towers.dim

    @property
    def device(self) -> str:
        return self.towers.device

    @property
    def precision(self) -> str:
        """Return the type that the model computes in; rows are float32."""
        return self.towers.precision

    @property
    def modalities(self) -> tuple[Modality, ...]:
        return self.towers.modalities

    @property
    def note(self) -> str:
        """Return what an artefact says of these rows; "" where they are the same in every run."""
        if self.towers.repeatable:
            return ""
        return (
            "rows may differ in their last digits with what is encoded beside them: computed in"
            f" batches on {self.device} in {self.precision}"
        )

    @cached_property
    def fingerprint(self) -> str:
        """Return a hash of weights, vocabulary and preprocessing.

        Every artefact made with this encoder carries it.
        """
        return self.towers.digest()

    @property
    def module(self) -> Any:
        """Return the torch module, whose ``encode_image`` and ``encode_text`` take tensors."""
        module = getattr(self.towers, "module", None)
        if module is None:
            raise InputError(f"{self.id} is not a torch module; encoders of hf: and open_clip: are")
        return module

    def text_tower(self) -> TextTower:
        """Return the text tower in torch, with room for learned tokens; raise where there is none.

        See ``TextTower``.
        """
        return self.towers.text_tower()

    def batch_size(self, modality: Modality) -> int:
        """Return how many items are encoded at once."""
        return self._batches[modality].size

    def encode_text(self, texts: Sequence[str]) -> np.ndarray:
        """Return unit rows (n, dim), float32, in the order of the texts."""
        self._require("text")
        texts = _checked_texts(texts)
        self.report = Report(items=len(texts))
        out = np.empty((len(texts), self.dim), np.float32)
        with progress("texts", len(texts), self.show_progress) as advance:
            for start in range(0, len(texts), WINDOW):
                window = texts[start : start + WINDOW]
                self._encode_window(window, out[start : start + len(window)], start, advance)
        if self.report.truncated:
            _warn(
                f"{self.report.truncated} of {len(texts)} texts are longer than the"
                f" {self.towers.max_tokens} tokens {self.id} reads; cut"
            )
        return out

    def encode_images(
        self, images: Iterable[Any], *, on_unreadable: OnUnreadable = "nan"
    ) -> np.ndarray:
        """Return unit rows (n, dim), float32, in the order of the images.

        images: paths, bytes, PIL images, arrays, or an iterator of these. An image that cannot be
        decoded is named in a warning and in ``report.unreadable``, and its row is NaN;
        on_unreadable="raise" makes the first one an error.
        """
        if on_unreadable not in ("nan", "raise"):
            raise InputError(f'on_unreadable={on_unreadable!r} is not legal; pass "nan" or "raise"')
        rows, lost = [], np.full(self.dim, np.nan, np.float32)
        for row in self.iter_images(images):
            if not isinstance(row, Unreadable):
                rows.append(row)
            elif on_unreadable == "raise":
                raise UnreadableImageError(f"{row.name}: {row.reason}")
            else:
                rows.append(lost)
        bad = self.report.unreadable
        if bad:
            named = "; ".join(f"{item.name}: {item.reason}" for item in bad[:3])
            more = "; ..." if len(bad) > 3 else ""
            _warn(
                f"{len(bad)} of {len(rows)} images could not be read; their rows are NaN"
                f" ({named}{more})"
            )
        if not rows:
            return np.empty((0, self.dim), np.float32)
        return np.stack(rows)

    def iter_images(self, images: Iterable[Any]) -> Iterator[np.ndarray | Unreadable]:
        """Yield one unit row per image, or why there is none, in order, within bounded memory."""
        self._require("image")
        images = _checked_images(images)
        self.report = Report()
        total = len(images) if isinstance(images, Sequence | np.ndarray) else None
        with progress("images", total, self.show_progress) as advance:
            for row in self._image_rows(images):
                self.report.items += 1
                advance(1)
                yield row

    def _encode_window(self, texts: list[str], out: np.ndarray, start: int, advance) -> None:
        """Look texts up, then encode the rest by length, so that batches need little padding."""
        counts = np.asarray(self.towers.token_counts(texts))
        longest = self.towers.max_tokens or np.inf
        self.report.truncated += int((counts > longest).sum())
        keys = text_keys(texts) if self.cache else []
        found = self._cached(keys)
        for i, key in enumerate(keys):
            if key in found:
                out[i] = found[key]
        missing = [i for i in range(len(texts)) if not keys or keys[i] not in found]
        self.report.from_cache += len(texts) - len(missing)
        advance(len(texts) - len(missing))
        order = sorted(missing, key=lambda i: counts[i])
        batches = self._batches["text"]
        while order:
            batch, order = order[: batches.size], order[batches.size :]
            items = [texts[i] for i in batch]
            rows, lost = self._unit_rows("text", self.towers.text_features, items)
            if lost.any():
                first = batch[int(lost.argmax())]
                raise InputError(
                    f"text {start + first} ({texts[first]!r}) has no embedding: {self.id} knows"
                    " none of its words; leave it out, or word it differently"
                )
            out[batch] = rows
            advance(len(batch))
        if keys and missing:
            self._keep({keys[i]: out[i] for i in missing})

    def _image_rows(self, images: Iterable[Any]) -> Iterator[np.ndarray | Unreadable]:
        items = self._looked_up(images)
        prepare = self.towers.preprocess or np.asarray
        ahead: deque[_Item] = deque()  # what the decoder has taken and not given back

        def sources() -> Iterator[Any]:
            for item in items:
                ahead.append(item)
                yield None if item.row is not None else item.source

        waiting: list[_Item] = []
        decoded_items = 0
        batches = self._batches["image"]
        for decoded in decode(sources(), prepare, self.workers):
            item = ahead.popleft()
            item.source, item.pixels = None, decoded
            waiting.append(item)
            decoded_items += isinstance(decoded, np.ndarray)
            # Items that the cache or an error has settled need not wait.
            if decoded_items >= batches.size or not decoded_items:
                yield from self._finished(waiting)
                waiting, decoded_items = [], 0
        yield from self._finished(waiting)

    def _unit_rows(
        self, modality: Modality, function: Any, items: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return unit float32 rows, and the mask of those that have no direction."""
        rows = np.asarray(self._batches[modality].run(function, items), np.float32)
        if rows.shape != (len(items), self.dim):
            raise EquipoiseError(
                f"{self.id} gave {modality} features of shape {rows.shape} for {len(items)} items"
                f" of {self.dim} dimensions"
            )
        with np.errstate(all="ignore"):
            # numpy sums each line by itself; einsum's buffers would cut a line where others end
            norms = np.sqrt(np.square(rows, dtype=np.float64).sum(1, keepdims=True))
            lost = ~(np.isfinite(norms[:, 0]) & (norms[:, 0] > 0))
            return (rows / norms).astype(np.float32), lost

    def _looked_up(self, images: Iterable[Any]) -> Iterator[_Item]:
        items = (_Item(i, source, pictures.name_of(source, i)) for i, source in enumerate(images))
        for chunk in iter(lambda: list(islice(items, LOOKUP if self.cache else 1)), []):
            if self.cache:
                self._look_up(chunk)
            yield from chunk

    def _look_up(self, items: list[_Item]) -> None:
        keys = image_keys([item.source for item in items])
        found = self._cached([key for key in keys if key])
        for item, key in zip(items, keys, strict=True):
            item.key = key
            item.row = found.get(key or b"")
            if item.row is not None:
                self.report.from_cache += 1

    def _finished(self, items: list[_Item]) -> Iterator[np.ndarray | Unreadable]:
        decoded = [item for item in items if isinstance(item.pixels, np.ndarray)]
        if decoded:
            pixels = [item.pixels for item in decoded]
            stacked = np.stack(pixels) if self.towers.preprocess else pixels
            rows, lost = self._unit_rows("image", self.towers.image_features, stacked)
            if lost.any():
                name = decoded[int(lost.argmax())].name
                raise EquipoiseError(
                    f"{self.id} gave no direction for {name}: its features are zero or not finite;"
                    " try dtype='float32'"
                )
            for item, row in zip(decoded, rows, strict=True):
                item.row, item.pixels = row, None
            self._keep({item.key: row for item, row in zip(decoded, rows, strict=True) if item.key})
        for item in items:
            if item.row is None:
                problem = Unreadable(item.index, item.name, str(item.pixels or "there is nothing"))
                self.report.unreadable.append(problem)
                yield problem
            else:
                yield item.row

    def _cached(self, keys: list[bytes]) -> dict[bytes, np.ndarray]:
        if not self.cache or not keys:
            return {}
        with self._or_without_cache():
            before = self.cache.damaged
            found = self.cache.get(self._cache_space, keys, self.dim)
            damaged = self.cache.damaged - before
            if damaged:
                self.report.damaged += damaged
                _warn(f"{damaged} rows in {self.cache.path} were damaged; they are computed again")
            return found
        return {}

    def _keep(self, rows: dict[bytes, np.ndarray]) -> None:
        with self._or_without_cache():
            if self.cache and rows:
                self.cache.put(self._cache_space, rows)

    @contextmanager
    def _or_without_cache(self) -> Iterator[None]:
        """Give a cache that fails up, with a warning; the work goes on."""
        try:
            yield
        except ArtefactError as error:
            self.cache = None
            _warn(f"going on without a cache: {error}")

    @cached_property
    def _cache_space(self) -> str:
        """Return the key of these rows: the model, and all that shows in their last digits."""
        device = self.device.split(":")[0]
        manner = "one by one" if self.towers.repeatable else "in batches"
        parts = [self.towers.cache_digest(), self.precision, device, manner, self.towers.runtime]
        space = " ".join(parts)
        if self.cache:
            self.cache.name(space, self.id)
        return space

    def _require(self, modality: Modality) -> None:
        if modality not in self.modalities:
            raise InputError(
                f"{self.id} has no {modality} tower; it encodes {' and '.join(self.modalities)}"
                " only"
            )

    def __repr__(self) -> str:
        return (
            f"Encoder({self.id!r}, dim={self.dim}, device={self.device!r},"
            f" precision={self.precision!r})"
        )


@dataclass
class _Item:
    """An image on its way: first its source, then its pixels or an error, then its row."""

    index: int
    source: Any
    name: str
    key: bytes | None = None
    pixels: Any = None
    row: np.ndarray | None = None


def _checked_texts(texts: Sequence[str]) -> list[str]:
    if isinstance(texts, str):
        raise InputError(
            f"one text was given ({texts[:40]!r}); pass a list of texts: [{texts[:40]!r}]"
        )
    if not isinstance(texts, Iterable):
        raise InputError(f"{type(texts).__name__} is not a list of texts; pass a list of str")
    columns = getattr(texts, "columns", None)
    if columns is not None:  # a table would give the names of its columns
        raise InputError(
            f"a {type(texts).__name__} was given; pass one column of it, of {list(columns)}"
        )
    texts = list(texts)
    for i, text in enumerate(texts):
        if isinstance(text, Image.Image):
            raise InputError(
                f"text {i} is an image; pass a list of str, and images to encode_images"
            )
        if not isinstance(text, str):
            raise InputError(f"text {i} is {type(text).__name__}; pass a list of str")
        if not text.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise InputError(
                f"text {i} ({text!r}) holds half a character; it was decoded wrongly, so read it as"
                " UTF-8"
            )
        if not text.strip():
            raise InputError(f"text {i} is empty; leave it out, or say what it stands for")
    return texts


def _checked_images(images: Any) -> Iterable[Any]:
    if isinstance(images, str | os.PathLike | bytes | Image.Image):
        raise InputError(f"one image was given ({type(images).__name__}); pass a list of images")
    if hasattr(images, "ndim") and images.ndim in (2, 3):
        raise InputError(
            f"one array of shape {tuple(images.shape)} was given; pass a list of images, or an"
            " array (n, height, width, 3)"
        )
    return images


def _default_workers(device: str) -> int:
    wanted = cores() // 2 if device == "cpu" else cores() - 1
    return min(16, max(1, wanted))


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=3)
