"""Images: anything that holds a picture in, an upright RGB image out.

Transparent pixels are laid on white. 16-bit and floating-point images are scaled to 8 bits. Of an
animation the first frame is taken.

Files are not trusted. An image larger than ``max_pixels`` is not decoded. Others are converted in
bands, so that an image takes about 8 bytes per pixel, whatever its mode (twice that from WebP and
TIFF, whose decoders keep copies of their own).
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, BinaryIO

import numpy as np
from PIL import ExifTags, IcoImagePlugin, Image

from equipoise._paths import open_regular
from equipoise.errors import InputError

MAX_MEGAPIXELS = 128
"""Fits the photographs of 108-megapixel telephones and of 102-megapixel cameras."""
_VARIABLE = "EQUIPOISE_MAX_MEGAPIXELS"
_BAND = 2**22  # pixels that are converted at a time
# By the orientation that EXIF states.
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
OVERSHOOT = 1.1  # by which resizing may exceed white
# Rasters only: none of these formats runs a program.
FORMATS = (
    "JPEG",
    "PNG",
    "WEBP",
    "GIF",
    "BMP",
    "TIFF",
    "PPM",
    "JPEG2000",
    "AVIF",
    "TGA",
    "ICO",
)

NOT_TEXT = ("interlace", "transparency", "xmp")  # Pillow's notes that are no strings


class UnreadableImageError(InputError):
    """A file or bytes from which no image can be decoded."""


@cache
def formats() -> tuple[str, ...]:
    """Return those of ``FORMATS`` that this Pillow was built with."""
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def max_pixels() -> int:
    """Return how many pixels an image may have: EQUIPOISE_MAX_MEGAPIXELS, or 128 megapixels."""
    given = os.environ.get(_VARIABLE, str(MAX_MEGAPIXELS))
    if not given.isdecimal() or int(given) < 1:
        raise InputError(f"{_VARIABLE}={given!r} is not legal; set it to a whole number from 1")
    return int(given) * 10**6


def open_image(source: Any, longest: int | None = None) -> Image.Image:
    """Return a path, the bytes of a file, a PIL image or an array as an RGB image.

    An array is (height, width[, channels]). longest: shrink the image until no side is longer; a
    JPEG is then not even decoded in full.
    """
    if isinstance(source, Image.Image):
        most = max_pixels()
        return _safely(lambda: _converted(_bounded(source.copy(), most), longest))
    if isinstance(source, str | os.PathLike | bytes | bytearray | memoryview):
        return _decode(source, longest)
    if hasattr(source, "__array__"):
        if hasattr(source, "detach"):
            source = source.detach().cpu()
        return _shrunk(_from_array(np.asarray(source)), longest)
    raise InputError(
        f"{type(source).__name__} is not an image; pass a path, bytes, a PIL image or an array"
        " (height, width, 3)"
    )


def open_file(path: str | os.PathLike[str], longest: int | None = None) -> Image.Image:
    """Return the image of a file; an error names the file."""
    try:
        return open_image(path, longest)
    except UnreadableImageError as error:
        raise UnreadableImageError(f"{os.fspath(path)} cannot be read: {error}") from None


def jpeg(source: Any, longest: int, quality: int) -> bytes:
    """Return a JPEG of the pixels alone: no comment, no place, no prompt goes with it."""
    image = open_image(source, longest)
    image.info.clear()  # comments, which Pillow would write again
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality, subsampling=0)
    return file.getvalue()


def name_of(source: Any, index: int) -> str:
    """Return the name of an image for messages."""
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    return f"image {index}"


@contextmanager
def identified(source: Any) -> Iterator[Image.Image]:
    """Yield an image whose header is read and whose pixels are not; raise if it is too large.

    ``Image.open`` would warn of images above a limit of its own, which holds for the whole process.
    """
    most = max_pixels()
    with _file(source) as file, _first_accepted(file) as image:
        yield _bounded(image, most)


def _file(source: Any) -> BinaryIO:
    if isinstance(source, bytes | bytearray | memoryview):
        return io.BytesIO(source)
    return open_regular(source)


def _first_accepted(file: BinaryIO) -> Image.Image:
    start = file.read(16)
    for name in formats():
        factory, accepts = Image.OPEN[name]
        if name == "ICO":
            factory = _open_icon
        if accepts and accepts(start) is not True:
            continue
        file.seek(0)
        try:
            return factory(file, "")
        except (SyntaxError, IndexError, TypeError, struct.error):  # another format's
            continue
    raise Image.UnidentifiedImageError


def _open_icon(file: BinaryIO, _: str) -> Image.Image:
    """Return the largest image of an icon; Pillow would decode it before its size is known.

    The directory of an icon may state another size than its image has.
    """
    return IcoImagePlugin.IcoFile(file).frame(0)


def _bounded(image: Image.Image, most: int) -> Image.Image:
    if image.width * image.height > most:
        raise UnreadableImageError(
            f"too large to decode safely ({image.width:,} x {image.height:,} pixels, and"
            f" {most // 10**6:,} megapixels are legal; set {_VARIABLE} to allow more)"
        )
    return image


def _decode(source: Any, longest: int | None) -> Image.Image:
    max_pixels()  # raises for an illegal limit, which is not the image's fault

    def load() -> Image.Image:
        with identified(source) as image:
            if longest is not None:
                image.draft(None, (2 * longest, 2 * longest))  # twice, so that nothing is blurred
            _drop_text(image)
            image.load()
            return _converted(image, longest)

    return _safely(load)


def _safely(load: Callable[[], Image.Image]) -> Image.Image:
    """Return the image that ``load`` gives; whatever a decoder raises, the image is unreadable."""
    try:
        image = load()
        if 0 in image.size:
            raise UnreadableImageError(f"it has no pixels ({image.width} x {image.height})")
        return image
    except UnreadableImageError:
        raise
    except FileNotFoundError:
        raise UnreadableImageError("there is no such file") from None
    except Image.UnidentifiedImageError:
        raise UnreadableImageError("not an image in a format that equipoise reads") from None
    except (Image.DecompressionBombError, MemoryError) as error:
        raise UnreadableImageError(f"too large to decode safely ({error})") from None
    except Exception as error:  # decoders of damaged files raise whatever they like
        raise UnreadableImageError(f"damaged ({type(error).__name__}: {error})") from None


def _drop_text(image: Image.Image) -> None:
    """Forget texts of a PNG that Pillow would take for notes of its own."""
    for key in NOT_TEXT:
        if isinstance(image.info.get(key), str):
            del image.info[key]


def _converted(image: Image.Image, longest: int | None) -> Image.Image:
    """Return a loaded image in RGB, shrunk and upright."""
    turn = _TURNS.get(_orientation(image))
    image = _shrunk(_to_rgb(image), longest)
    if turn is None:
        return image
    return image.transpose(turn)


def _orientation(image: Image.Image) -> int:
    """Return the orientation that EXIF or XMP states; 1, upright, where they cannot be read."""
    try:
        return image.getexif().get(ExifTags.Base.Orientation, 1)
    except Exception:  # notes beside a picture may hold anything, and it is whole without them
        return 1


def _shrunk(image: Image.Image, longest: int | None) -> Image.Image:
    if longest is not None:
        image.thumbnail((longest, longest))
    return image


def _to_rgb(image: Image.Image) -> Image.Image:
    _drop_text(image)
    image.load()  # texts may lie behind the pixels, too
    _drop_text(image)
    if image.mode == "RGB":
        return image
    if image.mode == "F":  # white is found by the brightest of all pixels
        return _from_array(np.asarray(image))
    convert = _conversion(image)
    whole = Image.new("RGB", image.size)
    rows = max(_BAND // image.width, 1)
    for top in range(0, image.height, rows):
        box = (0, top, image.width, min(top + rows, image.height))
        whole.paste(convert(image.crop(box)), box)
    return whole


def _conversion(image: Image.Image) -> Callable[[Image.Image], Image.Image]:
    """Return the function that converts an image of this mode to RGB."""
    if image.mode == "I" or image.mode.startswith("I;"):  # 16 bits, whatever their container
        return lambda band: _from_array((np.asarray(band) / 65535).clip(0, 1))
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        return _on_white
    return lambda band: band.convert("RGB")


def _on_white(image: Image.Image) -> Image.Image:
    image = image.convert("RGBA")
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image).convert("RGB")


def _from_array(array: np.ndarray) -> Image.Image:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    flat = array.ndim == 2
    coloured = array.ndim == 3 and array.shape[2] in (3, 4)
    if array.size == 0 or not (flat or coloured):
        raise InputError(
            f"an array of shape {array.shape} is not an image; pass (height, width) or (height,"
            " width, 1, 3 or 4 channels)"
        )
    return _to_rgb(Image.fromarray(_to_bytes(array)))


def _to_bytes(array: np.ndarray) -> np.ndarray:
    """Return 8-bit values for 8-bit, 16-bit, boolean or floating-point values."""
    if array.dtype == np.uint8:
        return array
    if array.dtype == bool:
        return array.astype(np.uint8) * 255
    scale = _scale(array)
    bytes_ = np.empty(array.shape, np.uint8)
    rows = max(_BAND // array[0].size, 1)
    for top in range(0, len(array), rows):
        band = array[top : top + rows]
        bytes_[top : top + rows] = np.rint(np.minimum(band * scale, 255))
    return bytes_


def _scale(array: np.ndarray) -> float:
    """Return the factor that brings values to the range from 0 to 255.

    Floating-point values range from 0 to 1, or to 255 where they go well beyond 1.
    """
    if not np.isfinite(array).all() or array.min() < 0:
        raise InputError(
            "an image holds negative or non-finite values; pass bytes, or numbers from 0 to 1"
        )
    top = array.max()
    if np.issubdtype(array.dtype, np.integer):
        if array.dtype != np.uint16 or (0 < top <= 255):
            raise InputError(
                f"an image of {array.dtype} that reaches {top} may be of 8 bits or of 16; pass"
                " uint8, or uint16 of full range"
            )
        scale = 255 / 65535
    else:
        scale = 255 if top <= OVERSHOOT else 1
    if top * scale > 255 * OVERSHOOT:
        raise InputError(
            f"an image of {array.dtype} reaches {top}; pass uint8 or uint16, or numbers from 0 to 1"
        )
    return scale
