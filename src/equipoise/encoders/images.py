"""Anything that holds a picture, in; an upright RGB image, out.

Transparent pixels are laid on white. 16-bit and floating-point pictures are scaled to 8 bits. Of an animation the first frame is taken.
"""

from __future__ import annotations

import io
import os
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from equipoise.errors import InputError

MAX_PIXELS = 178_956_970  # what Pillow refuses to open: a decompression bomb


class UnreadableImageError(InputError):
    """A file or bytes that do not hold a picture that can be decoded."""


def open_image(source: Any) -> Image.Image:
    """A path, the bytes of a file, a PIL image or an array (height, width[, channels]) as an RGB image."""
    if isinstance(source, Image.Image):
        return _to_rgb(source)
    if isinstance(source, str | os.PathLike | bytes | bytearray | memoryview):
        return _decode(source)
    if hasattr(source, "__array__"):
        return _from_array(np.asarray(source.detach().cpu() if hasattr(source, "detach") else source))
    raise InputError(f"{type(source).__name__} is not an image; pass a path, bytes, a PIL image or an array (height, width, 3)")


def name_of(source: Any, index: int) -> str:
    """How a message calls it."""
    return os.fspath(source) if isinstance(source, str | os.PathLike) else f"image {index}"


def _decode(source: Any) -> Image.Image:
    file = io.BytesIO(source) if isinstance(source, bytes | bytearray | memoryview) else source
    try:
        with Image.open(file) as image:
            if image.width * image.height > MAX_PIXELS:
                raise Image.DecompressionBombError(f"{image.width} x {image.height} pixels")
            image.load()
            return _to_rgb(image)
    except FileNotFoundError:
        raise UnreadableImageError("there is no such file") from None
    except Image.UnidentifiedImageError:
        raise UnreadableImageError("not a picture in a format that Pillow reads") from None
    except Image.DecompressionBombError as error:
        raise UnreadableImageError(f"too large to decode safely ({error})") from None
    except Exception as error:  # decoders of damaged files raise whatever they like
        raise UnreadableImageError(f"damaged ({type(error).__name__}: {error})") from None


def _to_rgb(image: Image.Image) -> Image.Image:
    image = ImageOps.exif_transpose(image)
    if image.mode == "RGB":
        return image
    if image.mode in ("I", "F") or image.mode.startswith("I;"):
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
        raise InputError(f"an array of shape {array.shape} is not an image; pass (height, width) or (height, width, 1, 3 or 4 channels)")
    return _to_rgb(Image.fromarray(_to_bytes(array)))


def _to_bytes(array: np.ndarray) -> np.ndarray:
    """8-bit values of 8-bit, 16-bit, boolean or floating-point ones (those from 0 to 1, or to 255 where any exceeds 1)."""
    if array.dtype == np.uint8:
        return array
    if array.dtype == bool:
        return array.astype(np.uint8) * 255
    if not np.isfinite(array).all() or array.min() < 0:
        raise InputError("an image holds negative or non-finite values; pass bytes, or numbers from 0 to 1")
    top = array.max()
    if np.issubdtype(array.dtype, np.integer):
        scale = 1 if top <= 255 and array.dtype.itemsize > 2 else 255 / 65535
    else:
        scale = 255 if top <= 1 else 1
    if top * scale > 255.5:
        raise InputError(f"an image of {array.dtype} reaches {top}; pass 8 or 16 bits, or numbers from 0 to 1")
    return np.rint(array * scale).astype(np.uint8)
