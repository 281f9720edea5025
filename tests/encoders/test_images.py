"""Every odd picture a folder can hold, and preprocessing to the pixel."""

from __future__ import annotations

import io
import subprocess
import sys
import warnings

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from equipoise.encoders import _images as images
from equipoise.encoders._images import UnreadableImageError, identified, open_file, open_image
from equipoise.encoders._preprocess import Preprocess
from equipoise.errors import InputError


def stored(image: Image.Image, kind: str = "PNG", **options) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


@pytest.fixture
def picture(rng):
    return Image.fromarray(rng.integers(0, 256, (20, 30, 3), dtype=np.uint8))


def pixels(source) -> np.ndarray:
    image = open_image(source)
    assert image.mode == "RGB"
    return np.asarray(image)


def test_path_bytes_image_and_array_are_the_same_picture(tmp_path, picture):
    (tmp_path / "a.png").write_bytes(stored(picture))
    sources = [
        tmp_path / "a.png",
        str(tmp_path / "a.png"),
        stored(picture),
        memoryview(stored(picture)),
        picture,
        np.asarray(picture),
    ]
    for source in sources:
        np.testing.assert_array_equal(pixels(source), np.asarray(picture))


def test_grey_scale(picture):
    grey = picture.convert("L")
    np.testing.assert_array_equal(
        pixels(stored(grey)), np.repeat(np.asarray(grey)[:, :, None], 3, 2)
    )
    np.testing.assert_array_equal(pixels(np.asarray(grey)), pixels(grey))


def test_sixteen_bits_are_scaled_and_not_clipped():
    values = np.linspace(0, 65535, 256, dtype=np.uint16).reshape(16, 16)
    expected = np.rint(values / 257).astype(np.uint8)
    for source in (stored(Image.fromarray(values)), values):
        np.testing.assert_array_equal(pixels(source)[:, :, 0], expected)


def test_cmyk(picture):
    np.testing.assert_array_equal(
        pixels(stored(picture.convert("CMYK"), "TIFF")),
        np.asarray(picture.convert("CMYK").convert("RGB")),
    )


def test_palette(picture):
    palette = picture.quantize(16)
    np.testing.assert_array_equal(pixels(stored(palette)), np.asarray(palette.convert("RGB")))


def test_transparent_pixels_lie_on_white():
    clear = Image.new("RGBA", (4, 4), (255, 0, 0, 0))
    assert (pixels(stored(clear)) == 255).all()
    palette = Image.new("P", (4, 4), 0)
    palette.putpalette([10, 20, 30] * 256)
    assert (pixels(stored(palette, transparency=0)) == 255).all()


def test_exif_rotation_is_undone(picture):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned a quarter clockwise
    np.testing.assert_array_equal(
        pixels(stored(picture, exif=exif)), np.rot90(np.asarray(picture), -1)
    )


def test_of_an_animation_the_first_frame(picture):
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    first = pixels(stored(frames[0], "GIF", save_all=True, append_images=frames[1:]))
    assert first[0, 0, 0] > 250
    assert first[0, 0, 2] < 5


def test_floats_from_zero_to_one(picture):
    np.testing.assert_array_equal(pixels(np.asarray(picture) / 255), np.asarray(picture))


def test_truncated(picture):
    data = stored(picture.resize((200, 200)), "JPEG")
    with pytest.raises(UnreadableImageError, match="damaged"):
        open_image(data[: len(data) // 2])


def test_not_a_picture(tmp_path):
    with pytest.raises(UnreadableImageError, match="not an image"):
        open_image(b"hello")
    with pytest.raises(UnreadableImageError, match="no such file"):
        open_image(tmp_path / "nowhere.jpg")
    with pytest.raises(UnreadableImageError):
        open_image(tmp_path)  # a folder


def test_a_decompression_bomb_is_not_decoded():
    bomb = Image.new("1", (20_000, 20_000))
    with pytest.raises(UnreadableImageError, match="too large to decode safely"):
        open_image(stored(bomb))


def test_the_largest_picture_is_the_users_to_choose(monkeypatch, tmp_path):
    (tmp_path / "large.png").write_bytes(stored(Image.new("1", (1500, 1000))))
    monkeypatch.setenv("EQUIPOISE_MAX_MEGAPIXELS", "1")
    with pytest.raises(UnreadableImageError, match=r"large\.png .*1,500 x 1,000.*MEGAPIXELS"):
        open_file(tmp_path / "large.png")
    monkeypatch.setenv("EQUIPOISE_MAX_MEGAPIXELS", "2")
    assert open_file(tmp_path / "large.png").size == (1500, 1000)
    monkeypatch.setenv("EQUIPOISE_MAX_MEGAPIXELS", "many")
    with pytest.raises(InputError, match="EQUIPOISE_MAX_MEGAPIXELS='many' is not legal"):
        open_file(tmp_path / "large.png")


def test_photographs_that_pillow_warns_of_are_opened_without_a_word():
    photograph = stored(Image.new("1", (12_000, 9_000)))  # 108 megapixels, a telephone's
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with identified(photograph) as image:
            assert image.size == (12_000, 9_000)


def test_an_icon_is_as_large_as_its_picture_and_not_as_it_says(monkeypatch):
    icon = bytearray(stored(Image.new("RGB", (16, 16)), "ICO", sizes=[(16, 16)]))
    inside = stored(Image.new("1", (1500, 1000)))
    start = int.from_bytes(icon[18:22], "little")
    icon[14:18] = len(inside).to_bytes(4, "little")
    monkeypatch.setenv("EQUIPOISE_MAX_MEGAPIXELS", "1")
    with pytest.raises(UnreadableImageError, match="too large"):
        open_image(bytes(icon[:start]) + inside)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WEBP"])
def test_a_shrunk_picture_is_upright_and_no_longer_than_asked(kind):
    exif = Image.Exif()
    exif[0x0112] = 6
    left_red = Image.new("RGB", (400, 200), "blue")
    left_red.paste("red", (0, 0, 200, 200))
    small = open_image(stored(left_red, kind, exif=exif), longest=50)
    assert small.size == (25, 50)
    assert small.getpixel((12, 5))[0] > 200 and small.getpixel((12, 45))[2] > 200


def test_a_picture_in_memory_is_left_as_it_is(picture):
    assert open_image(picture, longest=5).size == (5, 3)
    assert picture.size == (30, 20)


@pytest.mark.parametrize("key", ["xmp", "XML:com.adobe.xmp", "exif", "Raw profile type exif"])
def test_notes_that_cannot_be_read_do_not_damage_a_picture(picture, key):
    notes = PngImagePlugin.PngInfo()
    notes.add_text(key, "no such thing")
    np.testing.assert_array_equal(pixels(stored(picture, pnginfo=notes)), np.asarray(picture))


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGBA", "CMYK", "YCbCr", "I;16", "F"])
def test_bands_give_the_pixels_of_the_whole(mode, monkeypatch, rng):
    values = rng.integers(0, 256, (37, 23), dtype=np.uint8)
    if mode == "I;16":
        image = Image.fromarray(values.astype(np.uint16) * 257)
    elif mode == "F":
        image = Image.fromarray(values.astype(np.float32) / 255)
    else:
        colours = rng.integers(0, 256, (37, 23, 4), dtype=np.uint8)
        image = Image.fromarray(colours, "CMYK" if mode == "CMYK" else "RGBA")
        image = image if mode in ("CMYK", "RGBA") else image.convert("RGB").convert(mode)
    whole = pixels(image)
    monkeypatch.setattr(images, "_BAND", 50)
    np.testing.assert_array_equal(pixels(image), whole)


PEAK = """
import sys
from pathlib import Path
from equipoise.encoders._images import open_image

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))

before = peak()
open_image(sys.argv[1], longest=int(sys.argv[2]) or None)
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize(
    ("mode", "kind", "longest", "bytes_a_pixel"),
    [
        ("I;16", "PNG", 0, 8),  # 2 as decoded, and RGB, which Pillow keeps in 4
        ("RGBA", "PNG", 0, 8),  # 4 and 4
        ("P", "PNG", 1600, 8),
        ("RGB", "JPEG", 400, 1),  # decoded at a quarter of its lines and columns
    ],
)
def test_decoding_takes_bounded_memory(tmp_path, mode, kind, longest, bytes_a_pixel):
    side = 6000
    Image.new(mode, (side, side)).save(tmp_path / "picture", kind)
    command = [sys.executable, "-c", PEAK, str(tmp_path / "picture"), str(longest)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    bands = 16 * 2**22  # at most 16 bytes a pixel of one band, on the way through float64
    assert int(ran.stdout) < bytes_a_pixel * side**2 + 2 * bands


@pytest.mark.parametrize("shape", [(3, 20, 30), (20,), (0, 3, 3), (2, 2, 2, 3)])
def test_arrays_that_are_no_image(shape):
    with pytest.raises(InputError, match="is not an image"):
        open_image(np.zeros(shape, np.uint8))


def test_a_little_beyond_white_is_white(picture):
    pixels = np.asarray(picture) / 255
    pixels[0, 0, 0] = 1.0001
    np.testing.assert_array_equal(np.asarray(open_image(pixels))[1:], np.asarray(picture)[1:])


@pytest.mark.parametrize(
    "values",
    [
        np.full((2, 2), -1.0),
        np.full((2, 2), np.nan),
        np.full((2, 2), 1e6),
        *(np.full((2, 2), 99, t) for t in (np.int8, np.int16, np.uint16)),
    ],
)
def test_values_that_are_no_image(values):
    with pytest.raises(InputError, match="an image"):
        open_image(values)


def test_a_picture_too_elongated_to_resize():
    with pytest.raises(UnreadableImageError, match="too elongated"):
        Preprocess((224, 224), 224)(Image.new("RGB", (1, 20_000)))


def test_preprocess_through_json(picture):
    preprocess = Preprocess((8, 10), 12, mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7))
    again = Preprocess.from_json(preprocess.to_json())
    assert again == preprocess
    assert preprocess(picture).shape == (8, 10, 3)
    raw = preprocess(picture)[None]
    expected = ((raw / 255 - preprocess.mean) / preprocess.std).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(preprocess.normalise(raw), expected, atol=1e-6)


def test_cropping_more_than_there_is_pads_with_black():
    out = Preprocess((8, 8), 4)(Image.new("RGB", (4, 4), "white"))
    assert out.sum() == 4 * 4 * 3 * 255
    assert out[2:6, 2:6].min() == 255
