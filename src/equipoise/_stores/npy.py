"""A .npy file of any size: its header checked against its bytes, and rows read block by block."""

from __future__ import annotations

import io
import threading
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from equipoise._stores.locations import Place
from equipoise.errors import ArtefactError, InputError

# numpy has no bfloat16: ml_dtypes saves its bits as V2, and they pass through as they are.
_BITS = {"bfloat16": "<u2"}
# numpy parses a header with ast, which on CPython 3.11 may fail in two threads at once (gh-106905)
_PARSING = threading.Lock()


@dataclass(frozen=True)
class NpyHeader:
    """What a file says about itself; ``raw`` are its first bytes, up to the rows."""

    rows: int
    dim: int
    dtype: str
    order: str
    raw: bytes

    @property
    def numpy_dtype(self) -> np.dtype:
        """Return the type with which the bytes are handed to a kernel."""
        return np.dtype(_BITS.get(self.dtype, self.order + np.dtype(self.dtype).str[1:]))

    @property
    def row_bytes(self) -> int:
        return self.dim * self.numpy_dtype.itemsize

    def resized(self, dim: int) -> NpyHeader:
        """Return the header of as many rows of another width."""
        if dim == self.dim:
            return self
        file = io.BytesIO()
        descr = "<V2" if self.dtype == "bfloat16" else self.numpy_dtype.str
        about = {"descr": descr, "fortran_order": False, "shape": (self.rows, dim)}
        np.lib.format.write_array_header_1_0(file, about)
        return NpyHeader(self.rows, dim, self.dtype, self.order, file.getvalue())


def read_header(place: Place, name: str) -> NpyHeader:
    """Return the header of a .npy file; raise for what is not a whole file of rows of numbers."""
    with place.open(name) as file:
        try:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_2_0
            if version == (1, 0):
                read = np.lib.format.read_array_header_1_0
            with _PARSING:
                shape, fortran, dtype = read(file)
            start = file.tell()
            file.seek(0)
            raw = _exactly(file, start)
        except (ValueError, EOFError) as error:
            raise ArtefactError(
                f"{name} in {place} is not a .npy file, or a truncated one ({error}); copy or make"
                " it again"
            ) from None
    named, order = _number_type(dtype)
    if named not in ("float16", "float32", "float64", "bfloat16"):
        raise InputError(
            f"{name} in {place} holds {named}; embeddings are float16, float32, float64 or bfloat16"
            " (saved by ml_dtypes)"
        )
    _require_rows(f"{name} in {place}", shape, fortran)
    header = NpyHeader(shape[0], shape[1], named, order, raw)
    size, wanted = place.stamp(name)[0], len(raw) + header.rows * header.row_bytes
    if size < wanted:
        raise ArtefactError(
            f"{name} in {place} is truncated: its header says {header.rows:,} rows, {wanted:,}"
            f" bytes, and it has {size:,}; copy it again"
        )
    return header


def _number_type(dtype: np.dtype) -> tuple[str, str]:
    """Return the name of a file's numbers and their byte order.

    bfloat16, which numpy does not know, is saved as two bytes of any meaning.
    """
    if dtype.kind == "V" and dtype.itemsize == 2 and dtype.names is None:
        return "bfloat16", "<"
    return dtype.name, ">" if dtype.str[0] == ">" else "<"


def _require_rows(where: str, shape: tuple[int, ...], fortran: bool) -> None:
    """Raise for an array that is not one row after another."""
    if len(shape) != 2 or shape[0] < 0 or shape[1] <= 0:
        raise InputError(f"{where} has shape {shape}; a file of embeddings has rows and columns")
    if fortran and shape[0] > 1 and shape[1] > 1:
        raise InputError(
            f"{where} is saved column by column; save it again with numpy.save(file,"
            " numpy.ascontiguousarray(x))"
        )


def read_block(file: BinaryIO, block: np.ndarray, name: str) -> np.ndarray:
    """Read the next rows into ``block``, and return it."""
    view = memoryview(block.reshape(-1).view(np.uint8))  # pyright: ignore[reportArgumentType]
    while view:
        try:
            count = file.readinto(view)  # pyright: ignore[reportAttributeAccessIssue]
        except OSError as error:
            raise ArtefactError(
                f"{name} cannot be read ({error.strerror or error}); check its disk, then go"
                " on with `resume`"
            ) from None
        if not count:
            raise ArtefactError(
                f"{name} ends before its last row; it changed while it was read, or the disk failed"
            )
        view = view[count:]
    return block


def _exactly(file: BinaryIO, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = file.read(count - len(data))
        if not more:
            raise EOFError("it became shorter while it was read")
        data += more
    return data
