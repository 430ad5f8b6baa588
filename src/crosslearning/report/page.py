"""The report: chapters from results in one self-contained page."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from crosslearning.extras import require
from crosslearning.files import default_cache_dir, replacing
from crosslearning.report.chapter import Chapter
from crosslearning.report.plots import export
from crosslearning.report.reading import Results, invalid, read

_PAPER = ("gaussian", "accuracy", "domains", "improvement")  # figures


def write(
    folder: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    formats: Iterable[str] = (),
) -> Path:
    """Write a report on the results in a folder as one HTML page that works offline.

    Every results file is a chapter: first those of the folder itself, then those of its subfolders
    by name, each with ``gaussian.json`` before ``results.json``.

    Parameters
    ----------
    folder : path
        Folder with ``results.json`` or ``gaussian.json``, or with subfolders that have them.
    out : path, optional
        Page to write, or folder for a page ``report.html``; by default the folder of the results.
    formats : iterable of {"png", "svg", "pdf"}, optional
        Formats in which to write the charts of the page, too: to the folder ``figures`` beside it,
        in subfolders named like those of the results.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    ValueError
        If there are no results, or if they are from another version.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from crosslearning.paper.gaussian import experiment as gaussian
    >>> with TemporaryDirectory() as folder:
    ...     _ = gaussian.run(gaussian.GaussianConfig(realizations=100), folder)
    ...     write(folder).name
    'report.html'
    """
    require("The report", "altair", "jinja2", "vl_convert")
    folder, formats = Path(folder), list(formats)
    page = folder if out is None else Path(out)
    if out is None or page.is_dir():
        page /= "report.html"
    parts = [(results, chapter(results)) for results in read(folder)]
    text = _render([one for _, one in parts])
    page.parent.mkdir(parents=True, exist_ok=True)
    with replacing(page) as temporary:
        temporary.write_text(text, encoding="utf-8")
    for results, one in parts if formats else ():
        place = page.parent / "figures" / results.path.parent.relative_to(folder)
        place.mkdir(parents=True, exist_ok=True)
        for figure in one.figures():
            export(figure, place, formats)
    return page


def draw(folder: str | os.PathLike[str], formats: Iterable[str] = ("png", "pdf")) -> list[Path]:
    """Draw the paper's figures of the results in a folder, and write them there.

    Parameters
    ----------
    folder : path
        Folder with image results in ``results.json``, or with ``gaussian.json``.
    formats : iterable of {"png", "pdf", "svg"}, default=("png", "pdf")
        File formats.

    Returns
    -------
    list of Path
        ``gaussian.png`` and so on; or ``accuracy`` and ``domains``, and ``improvement`` for the
        paper's experiment.
    """
    require("Drawing figures", "altair", "vl_convert")
    folder = Path(folder)
    return [
        path
        for results in read(folder)
        if results.path.parent == folder
        for figure in chapter(results).figures()
        if figure.name in _PAPER
        for path in export(figure, folder, formats)
    ]


def chapter(results: Results) -> Chapter:
    """Build the chapter on results."""
    from altair.utils.schemapi import debug_mode

    from crosslearning.report.gaussian import gaussian
    from crosslearning.report.images import images
    from crosslearning.report.table import table

    try:
        with debug_mode(False):  # to check every chart against the schema takes half of the time
            return {"gaussian": gaussian, "table": table, "images": images}[results.kind](results)
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        why = f"{type(error).__name__}: {error}"
        raise invalid(results.path, results.kind, why) from error


def _render(chapters: list[Chapter]) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from crosslearning import __version__
    from crosslearning.evaluation import numbers
    from crosslearning.report.style import CONFIG

    environment = Environment(
        loader=PackageLoader("crosslearning.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # A NaN in a chart would not be JSON, and would leave the page silently empty.
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "ensure_ascii": False}
    environment.filters |= {name: getattr(numbers, name) for name in numbers.__all__}
    environment.filters["anchored"] = _anchored
    title = chapters[0].title if len(chapters) == 1 else "Cross-learning report"
    about = {"title": title, "version": __version__, "config": CONFIG, "bundle": _bundle()}
    return str(environment.get_template("page.html").render(chapters=chapters, **about))


def _anchored(body: str, prefix: str) -> dict[str, Any]:
    """Add anchors to the headings of a chapter, and list them."""
    from markupsafe import Markup

    first, *parts = str(body).split("<h3>")
    named = {f"{prefix}-{k}": part for k, part in enumerate(parts, 1)}
    titles = {name: Markup(part.partition("</h3>")[0]) for name, part in named.items()}
    sections = [f'<h3 id="{name}">{part}' for name, part in named.items()]
    return {"titles": titles, "body": Markup(first + "".join(sections))}


@cache
def _bundle() -> str:
    """Return the JavaScript of the Vega version that Altair targets.

    It is kept in the cache, since bundling takes more time than most fits.
    """
    import altair as alt
    import vl_convert

    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    made_by = metadata.version("vl-convert-python")
    stored = default_cache_dir() / f"vega-lite-{version}-by-{made_by}.js"
    with suppress(OSError):
        return stored.read_text(encoding="utf-8")
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", version)
    with suppress(OSError):
        stored.parent.mkdir(parents=True, exist_ok=True)
        with replacing(stored) as temporary:
            temporary.write_text(bundle, encoding="utf-8")
    return bundle
