"""Export of charts as PNG, PDF and SVG files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path

from crosslearning.files import replacing
from crosslearning.report.chapters.chapter import Figure
from crosslearning.report.charts.pieces import Spec
from crosslearning.report.charts.style import CONFIG

_WIDTH = 640
_SCALE = 2.0  # pixels of a PNG per pixel of the page


def export(figure: Figure, folder: Path, formats: Iterable[str]) -> list[Path]:
    """Write a chart with its caption above, in the page's light colours on white.

    `formats` are "png", "pdf" or "svg".
    """
    chart = standing_alone(figure)
    paths = [folder / f"{figure.name}.{kind}" for kind in formats]
    for path in paths:
        save(chart, path)
    return paths


def save(chart: Spec, path: Path) -> None:
    """Write a chart in the format that the name of the file ends with."""
    import vl_convert

    write: dict[str, Callable[[Spec], bytes]] = {
        ".png": lambda chart: vl_convert.vegalite_to_png(chart, scale=_SCALE),
        ".pdf": vl_convert.vegalite_to_pdf,
        ".svg": lambda chart: svg(chart).encode(),
    }
    if path.suffix not in write:
        raise ValueError(
            f"A chart is saved as one of {', '.join(write)}; got {path.name!r}. Change the end of "
            "the file's name."
        )
    with replacing(path) as temporary:
        temporary.write_bytes(write[path.suffix](chart))


def svg(chart: Spec) -> str:
    """Return a chart as SVG."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(chart))


def standing_alone(figure: Figure) -> Spec:
    """Add the page's colours, configuration, caption and width to a chart."""
    # Without a style sheet, outlines would be drawn over the letters.
    text = {**CONFIG["text"], "stroke": None}
    config = {**CONFIG, "background": "white", "font": "sans-serif", "padding": 10, "text": text}
    size = {"width": _WIDTH} if figure.spec.get("width") == "container" else {}
    title = {
        "text": figure.caption,
        "subtitle": figure.key,
        "anchor": "start",
        "fontSize": 13,
        "color": "var(--ink)",
        "subtitleColor": "var(--soft)",
        "offset": 20,
    }
    chart = json.dumps({**figure.spec, **size, "title": title, "config": config})
    coloured = re.sub(r"var\(--([\w-]+)\)", lambda name: _colours()[name[1]], chart)
    return json.loads(coloured)  # type: ignore[no-any-return]


@cache
def _colours() -> dict[str, str]:
    """Colours of the style sheet by name; the first of each, which is for light pages."""
    sheet = files("crosslearning.report").joinpath("templates", "style.css").read_text()
    pairs = re.findall(r"--([\w-]+): (#\w+);", sheet)
    return dict(reversed(pairs))
