"""Anything that holds a picture, in; an upright RGB image, out.

Transparent pixels are laid on white. 16-bit and floating-point pictures are scaled to 8 bits. Of an
animation the first frame is taken.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from equipoise.errors import InputError
from equipoise.paths import open_regular

MAX_PIXELS = 178_956_970  # what Pillow refuses to open: a decompression bomb
OVERSHOOT = 1.1  # by which resizing may exceed white
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
)  # rasters: none that runs a program

NOT_TEXT = ("interlace", "transparency", "xmp")  # Pillow's notes that are no strings


class UnreadableImageError(InputError):
    """A file or bytes that do not hold a picture that can be decoded."""


@cache
def formats() -> tuple[str, ...]:
    """Those of ``FORMATS`` that this Pillow was built with."""
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def open_image(source: Any) -> Image.Image:
    """A path, the bytes of a file, a PIL image or an array (height, width[, channels]) as an RGB
    image.
    """
    if isinstance(source, Image.Image):
        return _safely(lambda: _to_rgb(source))
    if isinstance(source, str | os.PathLike | bytes | bytearray | memoryview):
        return _decode(source)
    if hasattr(source, "__array__"):
        return _from_array(
            np.asarray(source.detach().cpu() if hasattr(source, "detach") else source)
        )
    raise InputError(
        f"{type(source).__name__} is not an image; pass a path, bytes, a PIL image or an array"
        " (height, width, 3)"
    )


def name_of(source: Any, index: int) -> str:
    """How a message calls it."""
    return os.fspath(source) if isinstance(source, str | os.PathLike) else f"image {index}"


def _decode(source: Any) -> Image.Image:
    in_memory = isinstance(source, bytes | bytearray | memoryview)

    def load() -> Image.Image:
        with (
            io.BytesIO(source) if in_memory else open_regular(source) as file,
            Image.open(file, formats=formats()) as image,
        ):
            if image.width * image.height > MAX_PIXELS:
                raise Image.DecompressionBombError(f"{image.width} x {image.height} pixels")
            return _to_rgb(image)

    return _safely(load)


def _safely(load: Callable[[], Image.Image]) -> Image.Image:
    """Whatever a decoder raises is an unreadable picture."""
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
        raise UnreadableImageError("not a picture in a format that is read here") from None
    except Image.DecompressionBombError as error:
        raise UnreadableImageError(f"too large to decode safely ({error})") from None
    except Exception as error:  # decoders of damaged files raise whatever they like
        raise UnreadableImageError(f"damaged ({type(error).__name__}: {error})") from None


def _drop_text(image: Image.Image) -> None:
    """Forget texts of a PNG that Pillow, which keeps them beside its own notes, would take for
    those.
    """
    for key in NOT_TEXT:
        if isinstance(image.info.get(key), str):
            del image.info[key]


def _to_rgb(image: Image.Image) -> Image.Image:
    _drop_text(image)
    image.load()  # texts may lie behind the pixels, too
    _drop_text(image)
    image = ImageOps.exif_transpose(image)
    if image.mode == "RGB":
        return image
    if image.mode == "I" or image.mode.startswith("I;"):  # 16 bits, whatever their container
        return _from_array((np.asarray(image) / 65535).clip(0, 1))
    if image.mode == "F":
        return _from_array(np.asarray(image))
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image.convert("RGB")


def _from_array(array: np.ndarray) -> Image.Image:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.size == 0 or not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))):
        raise InputError(
            f"an array of shape {array.shape} is not an image; pass (height, width) or (height,"
            " width, 1, 3 or 4 channels)"
        )
    return _to_rgb(Image.fromarray(_to_bytes(array)))


def _to_bytes(array: np.ndarray) -> np.ndarray:
    """8-bit values of 8-bit, 16-bit, boolean or floating-point ones (those from 0 to 1, or to 255
    where they go well beyond 1).
    """
    if array.dtype == np.uint8:
        return array
    if array.dtype == bool:
        return array.astype(np.uint8) * 255
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
    return np.rint(np.minimum(array * scale, 255)).astype(np.uint8)
