"""Image files of every kind, and files that only look like some."""

import io
import struct
import zlib

import numpy as np
from PIL import Image


def quarters(width=40, height=24):
    """Red and green above, blue and white below: shows how it was turned."""
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    pixels[: height // 2, : width // 2] = 255, 0, 0
    pixels[: height // 2, width // 2 :] = 0, 255, 0
    pixels[height // 2 :, : width // 2] = 0, 0, 255
    pixels[height // 2 :, width // 2 :] = 255, 255, 255
    return Image.fromarray(pixels)


def corners(pixels):
    """Colours of the four quarters of a square image, as rough words."""
    size = len(pixels)
    low, high = size // 4, size - 1 - size // 4
    names = {(1, 0, 0): "red", (0, 1, 0): "green", (0, 0, 1): "blue", (1, 1, 1): "white"}
    return [
        names.get(tuple((pixels[y, x] > 128).astype(int).tolist()), "other")
        for y, x in ((low, low), (low, high), (high, low), (high, high))
    ]


def encoded(image, format_, **options):
    stream = io.BytesIO()
    image.save(stream, format_, **options)
    return stream.getvalue()


def put(root, name, data):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def png_bomb(width=60_000, height=60_000):
    """Only the header of a PNG of 3.6 billion pixels."""

    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
