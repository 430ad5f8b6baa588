"""One image file of every kind."""

import struct
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from crosslearning.datasets.decoding import decode, strict_about_bombs
from tests.support.image_files import corners, encoded, png_bomb, put, quarters

COLOURS = ["red", "green", "blue", "white"]


@pytest.mark.parametrize(
    ("format_", "options"),
    [
        ("JPEG", {"quality": 95}),
        ("PNG", {}),
        ("BMP", {}),
        ("GIF", {}),
        ("WEBP", {"lossless": True}),
        ("TIFF", {}),
        ("PPM", {}),
    ],
)
def test_formats(format_, options, tmp_path):
    pixels = decode(put(tmp_path, "a", encoded(quarters(), format_, **options)), 16)
    assert pixels.shape == (16, 16, 3)
    assert pixels.dtype == np.uint8
    assert corners(pixels) == COLOURS


@pytest.mark.parametrize("mode", ["1", "L", "P", "CMYK", "YCbCr", "HSV"])
def test_modes(mode, tmp_path):
    image = quarters().convert(mode)
    format_ = {"CMYK": "JPEG", "YCbCr": "JPEG", "HSV": "TIFF"}.get(mode, "PNG")
    image = image.convert("RGB") if mode == "HSV" else image
    pixels = decode(put(tmp_path, "a", encoded(image, format_)), 16)
    if mode in ("1", "L"):
        assert (pixels[..., 0] == pixels[..., 1]).all()
        assert corners(pixels)[3] == "white"
    else:
        assert corners(pixels) == COLOURS


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "RGB"])
def test_transparent_pixels_are_white(mode, tmp_path):
    options = {}
    if mode in ("RGBA", "LA"):
        image = Image.new(mode, (20, 20), (0,) * len(mode))
        image.paste((0,) * (len(mode) - 1) + (255,), (0, 0, 10, 20))
    elif mode == "P":
        image = Image.new("P", (20, 20), 1)
        image.putpalette([0, 0, 0, 9, 9, 9])
        image.paste(0, (0, 0, 10, 20))
        options["transparency"] = 1
    else:
        image = Image.new("RGB", (20, 20), (1, 2, 3))
        image.paste((0, 0, 0), (0, 0, 10, 20))
        options["transparency"] = (1, 2, 3)
    pixels = decode(put(tmp_path, "a.png", encoded(image, "PNG", **options)), 20)
    assert (pixels[:, :10] == 0).all()
    assert (pixels[:, 10:] == 255).all()


def test_half_transparent_pixels_are_mixed_with_white(tmp_path):
    image = Image.new("RGBA", (4, 4), (0, 0, 0, 128))
    assert decode(put(tmp_path, "a.png", encoded(image, "PNG")), 4).tolist()[0][0] == [127] * 3


@pytest.mark.parametrize("format_", ["PNG", "TIFF", "PPM"])
def test_sixteen_bits_keep_their_contrast(format_, tmp_path):
    ramp = np.linspace(0, 65535, 64).astype(np.uint16)
    image = Image.fromarray(np.tile(ramp, (64, 1)))
    pixels = decode(put(tmp_path, "a", encoded(image, format_)), 64)
    np.testing.assert_allclose(pixels[0, :, 0], ramp / 257, atol=1.01)
    assert (pixels[..., 0] == pixels[..., 2]).all()


@pytest.mark.parametrize("values", [np.float32([[0.5]]), np.int32([[70_000]]), np.int32([[-1]])])
def test_pixels_without_a_known_white_are_refused(values, tmp_path):
    path = put(tmp_path, "a.tif", encoded(Image.fromarray(values), "TIFF"))
    with pytest.raises(ValueError, match="white level is unknown"):
        decode(path, 1)


@pytest.mark.parametrize("format_", ["JPEG", "PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_are_turned_as_the_camera_was_held(orientation, format_, tmp_path):
    undo = {
        1: lambda image: image,
        2: lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        3: lambda image: image.transpose(Image.Transpose.ROTATE_180),
        4: lambda image: image.transpose(Image.Transpose.FLIP_TOP_BOTTOM),
        5: lambda image: image.transpose(Image.Transpose.TRANSPOSE),
        6: lambda image: image.transpose(Image.Transpose.ROTATE_90),
        7: lambda image: image.transpose(Image.Transpose.TRANSVERSE),
        8: lambda image: image.transpose(Image.Transpose.ROTATE_270),
    }
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"lossless": True} if format_ == "WEBP" else {}
    data = encoded(undo[orientation](quarters()), format_, exif=exif, **options)
    assert corners(decode(put(tmp_path, "a", data), 32)) == COLOURS


@pytest.mark.parametrize("exif", [b"Exif\0\0rubbish", b"Exif\0\0II*\0\xff\xff\xff\x7f", b"\x9e"])
@pytest.mark.parametrize("format_", ["JPEG", "PNG"])
def test_broken_notes_of_the_camera_do_not_matter(format_, exif, tmp_path):
    path = put(tmp_path, "a", encoded(quarters(), format_, exif=exif))
    with strict_about_bombs():
        assert corners(decode(path, 16)) == COLOURS


@pytest.mark.parametrize(("width", "height"), [(1, 1), (18, 18), (1, 300), (640, 480)])
def test_any_size(width, height, tmp_path):
    image = quarters(width, height)
    assert decode(put(tmp_path, "a.png", encoded(image, "PNG")), 224).shape == (224, 224, 3)


@pytest.mark.parametrize("format_", ["JPEG", "PNG"])
def test_a_large_photograph(format_, tmp_path):
    options = {"compress_level": 1} if format_ == "PNG" else {}
    data = encoded(quarters(4000, 3000), format_, **options)
    assert corners(decode(put(tmp_path, "a", data), 32)) == COLOURS


def test_a_large_jpeg_is_resized_like_any_other(tmp_path):
    noise = np.random.default_rng(0).normal(size=(30, 40, 3)).cumsum(0).cumsum(1)
    small = np.uint8(255 * (noise - noise.min()) / np.ptp(noise))
    image = Image.fromarray(small).resize((1600, 1200), Image.Resampling.BICUBIC)
    data = encoded(image, "JPEG", quality=95)
    exact = Image.open(put(tmp_path, "a.jpg", data)).resize((64, 64), Image.Resampling.BILINEAR)
    difference = decode(tmp_path / "a.jpg", 64).astype(float) - np.asarray(exact)
    assert np.abs(difference).max() <= 3


def test_the_first_frame_of_an_animation(tmp_path):
    frames = [Image.new("RGB", (10, 10), colour) for colour in ("red", "blue", "green")]
    for format_ in ("GIF", "WEBP", "PNG"):
        data = encoded(frames[0], format_, save_all=True, append_images=frames[1:], duration=50)
        pixels = decode(put(tmp_path, "a", data), 8)
        assert corners(pixels) == ["red"] * 4


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not an image",
        encoded(quarters(400, 400), "JPEG")[:-200],
        encoded(quarters(400, 400), "PNG")[:-200],
        b"\xff\xd8\xff",
        b"GIF89a" + struct.pack("<HH", 10, 10),
    ],
)
def test_broken_files_raise(data, tmp_path):
    with pytest.raises((OSError, ValueError, SyntaxError)):
        decode(put(tmp_path, "a", data), 8)


@pytest.mark.parametrize("side", [10_000, 60_000])
def test_a_bomb_is_refused_above_the_limit_of_pillow(side, tmp_path):
    path = put(tmp_path, "a.png", png_bomb(side, side))
    kinds = (Image.DecompressionBombWarning, Image.DecompressionBombError)
    with strict_about_bombs(), pytest.raises(kinds):
        decode(path, 8)


def test_without_pillow_there_is_advice():
    code = (
        "import sys; sys.modules['PIL'] = None; from crosslearning.datasets import load_pictures32;"
        "load_pictures32().counts(); from crosslearning.datasets.decoding import decode;"
        "decode('a', 1)"
    )
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert failed.returncode == 1
    assert 'pip install "crosslearning[torch]"' in failed.stderr
