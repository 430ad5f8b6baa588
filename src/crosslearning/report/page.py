"""The report: chapters from results in one self-contained page."""

import json
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from crosslearning.archive import from_json
from crosslearning.extras import require
from crosslearning.files import AnyPath, default_cache_dir, replacing
from crosslearning.report.plots import Figure, export
from crosslearning.tables.findings import VERSION, Findings

_VERSIONS = {"table": VERSION, "images": 2}
_PAPER = ("gaussian", "accuracy", "domains", "improvement")  # figures


class Results(NamedTuple):
    """The results in one file: findings of a table, else a dictionary."""

    kind: str
    path: Path
    content: Any


@dataclass(frozen=True)
class Number:
    """A key figure: name, value, explanation, (name, value) pairs to compare it with, next step."""

    name: str
    value: str
    note: str
    others: tuple[tuple[str, str], ...] = ()
    words: bool = False
    command: str | None = None


@dataclass(frozen=True)
class Chapter:
    """What the template of a kind shows: the answer, the results, and details made from these."""

    kind: str
    title: str
    subtitle: str
    sentence: str
    numbers: tuple[Number, ...]
    content: Any
    details: dict[str, Any]
    remarks: Sequence[dict[str, str]] = ()
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()

    def figures(self) -> Iterator[Figure]:
        """Return the figures of the details, alone or in a list."""
        for part in self.details.values():
            for one in part if isinstance(part, list) else [part]:
                if isinstance(one, Figure):
                    yield one


def write(folder: AnyPath, *, out: AnyPath | None = None, formats: Iterable[str] = ()) -> Path:
    """Write a report on the results in a folder as one HTML page that works offline.

    Parameters
    ----------
    folder : path
        Folder with ``gaussian.json`` or ``results.json``, a chapter each; those in its subfolders
        follow by name.
    out : path, optional
        Page to write, or folder for a page ``report.html``; by default the folder of the results.
    formats : iterable of {"png", "svg", "pdf"}, optional
        Formats of the charts to write, too: to the folder ``figures`` beside the page, in
        subfolders named like those of the results.

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
    parts = [(results, chapter(results)) for results in read(folder)]
    page = _write([one for _, one in parts], folder if out is None else Path(out))
    for results, one in parts if formats else ():
        place = page.parent / "figures" / results.path.parent.relative_to(folder)
        place.mkdir(parents=True, exist_ok=True)
        for figure in one.figures():
            export(figure, place, formats)
    return page


def write_findings(findings: Findings, out: AnyPath) -> Path:
    """Write a report on the findings of a fit that is in memory."""
    require("The report", "altair", "jinja2", "vl_convert")
    return _write([chapter(Results("table", Path(out), findings))], Path(out))


def _write(chapters: list[Chapter], page: Path) -> Path:
    page = page / "report.html" if page.is_dir() else page
    _save(_render(chapters), page)
    return page


def _save(text: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def draw(folder: AnyPath, formats: Iterable[str] = ("png", "pdf")) -> list[Path]:
    """Draw the paper's figures of the results in a folder, and write them there.

    From ``gaussian.json`` these are ``gaussian.png`` and so on; from images' ``results.json``
    ``accuracy`` and ``domains``, and ``improvement`` for the paper's experiment.
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

    kind, content = results.kind, results.content
    build = getattr(import_module(f"crosslearning.report.{kind}"), kind)
    try:
        if kind == "table" and isinstance(content, dict):
            results = results._replace(content=from_json(Findings, content))
        with debug_mode(False):  # to check every chart against the schema takes half of the time
            made: Chapter = build(results)
            return made
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{results.path} does not contain valid {kind} results ({type(error).__name__}: "
            f"{error}). Create the results again with this version of crosslearning."
        ) from error


def _render(chapters: list[Chapter]) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from crosslearning import __version__
    from crosslearning.evaluation import numbers
    from crosslearning.report.drawing import CONFIG

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
    """Return the JavaScript of the Vega version that Altair targets."""
    import altair as alt
    import vl_convert

    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    made_by = metadata.version("vl-convert-python")
    stored = default_cache_dir() / f"vega-lite-{version}-by-{made_by}.js"
    with suppress(OSError):  # a cache, since bundling takes more time than most fits
        return stored.read_text(encoding="utf-8")
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", version)
    with suppress(OSError):
        _save(bundle, stored)
    return bundle


def read(folder: Path) -> list[Results]:
    """Return the results of a folder, then those of its subfolders by name."""
    if not folder.is_dir():
        raise ValueError(f"There is no folder {folder}. Pass the one with the results.")
    below = sorted(path for path in folder.iterdir() if path.is_dir())
    everything = [results for place in [folder, *below] for results in _in(place)]
    if not everything:
        raise ValueError(
            f"{folder} and its subfolders have neither results.json nor gaussian.json. Create "
            "results first, for example with `crosslearning fit` or `crosslearning demo`."
        )
    return everything


def _in(folder: Path) -> Iterator[Results]:
    path = folder / "gaussian.json"
    if path.is_file():
        yield Results("gaussian", path, _content(path) | {"curve": _curve(folder / "gaussian.csv")})
    path = folder / "results.json"
    if path.is_file():
        content = _content(path)
        kind, version = content.get("kind"), content.get("version")
        if (kind, version) not in list(_VERSIONS.items()):
            expected = " or ".join(f"{kind!r}, version {n}" for kind, n in _VERSIONS.items())
            raise ValueError(
                f"{path} must be results of {expected}; got {kind!r}, version {version!r}. "
                "Create the results again with this version of crosslearning."
            )
        yield Results(str(kind), path, content)


def _content(path: Path) -> dict[str, Any]:
    try:
        # NaN is not JSON, and a chart cannot show it.
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=lambda _: None)
        if not isinstance(content, dict):
            raise ValueError(f"it must be a JSON object; got {type(content).__name__}")
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}. Create the results again.") from error
    return content


def _curve(path: Path) -> list[dict[Hashable, float]]:
    try:
        rows = pd.read_csv(path, dtype=float)
        if not np.isfinite(rows).all(axis=None):  # JSON has no such numbers
            raise ValueError("a value is missing or not a finite number")
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} cannot be read: {error}. Create the results again.") from error
    return rows.to_dict("records")
