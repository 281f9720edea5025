"""Exact search: the images that score highest for each text, block by block, without the matrix of
all scores.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from equipoise._progress import progress
from equipoise.errors import InputError
from equipoise.kernels._best import MOST_IMAGES, Adjustment, Best, WindowRows, WindowScores

BLOCK = 16_384
WINDOW = 1 << 28  # bytes of images that are looked at twice, where that takes no copy
_DTYPES = ("float16", "float32", "float64")

Images = np.ndarray | Iterable[np.ndarray]
Transform = Callable[[np.ndarray], np.ndarray]
REMEMBERED = 1 << 26  # bytes of scores of recent texts


class RecentScores:
    """The rough scores of the texts that were searched for last, all in one index.

    Whoever ranks the images of a text again, by other adjustments, then reads only the best of
    them. It holds 4 bytes per image and text, up to ``limit`` bytes, and one text in any case.
    """

    def __init__(self, limit: int = REMEMBERED):
        self.limit = limit
        self._rows: list[WindowRows] = []
        self._texts: OrderedDict[bytes, list[WindowScores]] = OrderedDict()

    def of(self, texts: np.ndarray) -> Callable[[int], WindowScores] | None:
        """Return what gives the scores of a text with each window; None for several texts."""
        if len(texts) != 1:
            return None
        name = np.ascontiguousarray(texts, np.float64).tobytes()
        windows = self._texts.setdefault(name, [])
        self._texts.move_to_end(name)
        self._forget()

        def window(number: int) -> WindowScores:
            if number == len(self._rows):
                self._rows.append(WindowRows())
            if number == len(windows):
                windows.append(WindowScores(self._rows[number]))
            return windows[number]

        return window

    def _forget(self) -> None:
        """Drop what was asked for longest ago, until the rest is within the limit."""
        images = sum(len(rows.usable) for rows in self._rows if rows.usable is not None)
        most = max(1, self.limit // max(1, 4 * images))
        while len(self._texts) > most:
            self._texts.popitem(last=False)


def top_k(
    texts: np.ndarray,
    images: Images,
    k: int,
    *,
    transform: Transform | None = None,
    block: int = BLOCK,
    show_progress: bool | None = None,
    recent: RecentScores | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return ``(indices, scores)`` of the k images with the largest inner product for each text:
    (queries, k), int64 and float32, best first.

    texts (queries, d); images (n, d): an array, a memory map, or blocks of rows one after the other
    (``store.shards()``, any iterator). float16, float32 or float64. transform: applied to each
    block of image rows before it is scored, so that an operator needs no second copy of the index;
    it must treat each row by itself. show_progress: None for a terminal only. recent: keeps the
    scores of a text for the next ranking of the same images, with the same block and transform.

    A score is the inner product in float64, rounded to float32; of equal scores the lower index
    comes first. ``block`` changes speed and memory, never the result. Held at once: block scores
    for at most 1,024 texts per thread, for each text 16 k bytes (2 KiB where that is less), and a
    float32 copy of block images, unless they are contiguous float32 already. A k beyond the number
    of images gives all of them. Image rows that hold NaN, infinity or a number beyond float32
    (unreadable pictures) are never among the results.
    """
    best = _offered(texts, images, k, transform, block, show_progress, recent=recent)
    return best.result()


def top_k_adjusted(
    texts: np.ndarray,
    images: Images,
    k: int,
    adjustments: Sequence[Adjustment],
    memberships: np.ndarray,
    *,
    transform: Transform | None = None,
    block: int = BLOCK,
    recent: RecentScores | None = None,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return what ``top_k`` does for the texts, and then for each adjustment of their scores.

    memberships (n, r), float32 and finite: of the images, in their order. One product of texts and
    images serves all rankings: an adjustment adds r multiplications per score in place of d.
    """
    best = _offered(texts, images, k, transform, block, False, adjustments, memberships, recent)
    return [best.result(), *best.adjusted_results()]


def _offered(
    texts: np.ndarray,
    images: Images,
    k: int,
    transform: Transform | None,
    block: int,
    show_progress: bool | None,
    adjustments: Sequence[Adjustment] = (),
    memberships: np.ndarray | None = None,
    recent: RecentScores | None = None,
) -> Best:
    """Return the best after all images were offered; raise where none can be found."""
    texts = checked_texts(texts)
    k, block = checked_count("k", k), checked_count("block", block)
    best = Best(texts, k, adjustments)
    kept = None if recent is None else recent.of(texts)
    total = len(images) if isinstance(images, np.ndarray) and images.ndim else None
    with progress("searching", total, show_progress) as advance:
        for number, rows in enumerate(_windows(images, block, transform is None)):
            seen = best.seen
            near = None if memberships is None else memberships[seen : seen + len(rows)]
            shown = _transformed(rows, transform, seen, texts.shape[1])
            best.offer(shown, block, near, None if kept is None else kept(number))
            advance(len(rows))
    if not best.usable:
        found = (
            f"none of the {best.seen} images has a finite embedding"
            if best.seen
            else "there are no images"
        )
        raise InputError(f"{found}, so nothing can be found; pass at least one row of numbers")
    return best


def checked_count(name: str, value: int) -> int:
    """Return a parameter that counts from 1; raise for another value."""
    if not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name}={value!r} is not legal; pass a whole number from 1")
    return int(value)


def checked_texts(texts: np.ndarray) -> np.ndarray:
    """Return rows to search for (queries, d) in float64; raise where one cannot be."""
    check_texts(texts)
    return texts.astype(np.float64)


def check_texts(texts: np.ndarray) -> None:
    """Raise where rows cannot be searched for."""
    _check_rows(texts, "texts")
    if not texts.size:
        raise InputError(
            f"texts have shape {texts.shape}: there is nothing to search for; pass at least one row"
        )
    with np.errstate(over="ignore"):
        narrow = texts.astype(np.float32, copy=False)
    bad = np.flatnonzero(~np.isfinite(narrow).all(axis=1))
    if bad.size:
        raise InputError(
            f"{bad.size} of {len(texts)} texts hold NaN, infinity or numbers beyond float32 (first:"
            f" {bad[0]}); remove those rows"
        )


def _windows(images: Images, block: int, as_they_are: bool) -> Iterator[np.ndarray]:
    """Yield rows that are worked on together: a block where they must be converted, many blocks
    where they can be read as they lie.
    """
    if isinstance(images, np.ndarray):
        images = (images,)
    elif not isinstance(images, Iterable):
        advice = (
            "pass its shards()"
            if hasattr(images, "shards")
            else "pass an array (n, d), or blocks of rows"
        )
        raise InputError(f"images are of type {type(images).__name__}; {advice}")
    for rows in images:
        _check_rows(rows, "images")
        plain = as_they_are and rows.flags.c_contiguous and rows.dtype == np.float32
        size = max(1, WINDOW // max(1, 4 * rows.shape[1]) // block) * block if plain else block
        for start in range(0, len(rows), size):
            yield rows[start : start + size]


def _transformed(rows: np.ndarray, transform: Transform | None, seen: int, dim: int) -> np.ndarray:
    if seen + len(rows) > MOST_IMAGES:
        raise InputError(f"there are more than {MOST_IMAGES:,} images; search them in parts")
    made = "images"
    if transform is not None:
        count, rows, made = len(rows), transform(rows), "transformed images"
        _check_rows(rows, made)
        if len(rows) != count:
            raise InputError(
                f"transform made {len(rows)} rows of {count}; it must return one row for each that"
                " it is given"
            )
    check_widths(dim, rows.shape[1], made)
    return rows


def check_widths(texts: int, images: int, made: str = "images") -> None:
    """Raise where texts and images have no common width."""
    if images != texts:
        raise InputError(
            f"{made} are {images} wide and texts are {texts} wide; embed both with one encoder"
        )


def _check_rows(rows: np.ndarray, name: str) -> None:
    if not isinstance(rows, np.ndarray):
        raise InputError(f"{name} hold a {type(rows).__name__}; pass numpy arrays (n, d)")
    if isinstance(rows, np.ma.MaskedArray):
        raise InputError(
            f"{name} are a masked array, whose hidden rows would be searched all the same; drop"
            " those rows, or pass its data"
        )
    if rows.ndim != 2:
        raise InputError(f"{name} have shape {rows.shape}; rows must be embeddings, so pass (n, d)")
    if rows.dtype.name not in _DTYPES:
        raise InputError(
            f"{name} have dtype {rows.dtype.name}; convert them to one of {', '.join(_DTYPES)}"
        )
