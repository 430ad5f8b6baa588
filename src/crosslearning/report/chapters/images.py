"""The chapter on images: networks at several radii."""

from __future__ import annotations

import math
import shlex
from base64 import b64encode
from pathlib import Path
from typing import Any

from crosslearning.evaluation.numbers import count, percent, points, radius, spread
from crosslearning.report.chapters.chapter import Chapter, Figure, Number
from crosslearning.report.chapters.findings import reliability_figure
from crosslearning.report.chapters.provenance import provenance
from crosslearning.report.charts.images import confusion, domain_bars, improvement_bars
from crosslearning.report.charts.radius import accuracy_lines, accuracy_path
from crosslearning.report.reading import Results

METHODS = {"pooled": "pooled", "cross": "cross-learned", "separate": "separate"}
_PAPER = {"consensus": "pooled", "agnostic": "separate"}  # the paper's names
_PAIRS = 12


def images(results: Results) -> Chapter:
    """Build the chapter on networks for image domains."""
    content = results.content
    data, config, reliability = content["data"], content["config"], content.get("reliability")
    part = "linear head" if config.get("backbone") else "network"
    model = (config.get("backbone") or config["model"]).rpartition(":")[2]
    settings = {
        name.replace("_", " "): ", ".join(map(str, value)) if isinstance(value, list) else value
        for name, value in config.items()
    }
    return Chapter(
        kind="images",
        title=content["title"],
        subtitle=f"{count(data['images'], 'image')} of "
        f"{count(len(data['categories']), 'category', 'categories')} in "
        f"{count(len(data['domains']), 'domain')}; one {part} ({model}, {config['image_size']} px) "
        "per domain",
        sentence=content["sentence"],
        numbers=(_choice(content, results.path.parent), _accuracy(content), _gain(content)),
        remarks=content["remarks"],
        notes=content["notes"],
        details={
            "sheet": contact_sheet(results.path.parent / "contact_sheet.png"),
            "several_seeds": len(config["seeds"]) > 1,
            "accuracy": _path(content),
            "domains": _domain_lines(content),
            **_tables(content),
            "baselines": [_baseline(row) for row in content.get("baselines", [])],
            "trust": reliability
            and reliability_figure("category", reliability["class"], reliability["bins"], "images"),
            "off": reliability and f"{100 * reliability['off']:.1f}",
            "examples": content.get("examples", []),
            **_confusion(content["confusion"]),
            "improvement": _improvement(content.get("improvement")),
            "reported": _reported(content),
            "provenance": provenance(
                created=content["created"],
                **content["provenance"],
                facts={"data fingerprint": data["fingerprint"], **settings},
            ),
        },
    )


def _baseline(row: dict[str, Any]) -> dict[str, Any]:
    gain = row["gain"] and points(row["gain"], row["standard_error"])
    return {**row, "test": spread(row["test"]), "gain": gain}


def _choice(content: dict[str, Any], folder: Path) -> Number:
    chosen = content["chosen"]
    named = {0.0: "pooled", math.inf: "separate"}
    value = named.get(float(chosen["epsilon"]), f"cross-learned, ε = {radius(chosen['epsilon'])}")
    note = f"best of {count(len(content['path']), 'radius', 'radii')} on validation images; "
    note += f"on test images it is {radius(chosen['best_on_test'])}"
    command = f"crosslearning predict {shlex.quote(folder.resolve().name)} new-images"
    saved = (folder / "models").is_dir()
    return Number("Use these networks", value, note, words=True, command=command if saved else None)


def _accuracy(content: dict[str, Any]) -> Number:
    rivals = tuple((name, percent(value)) for name, value in _ends(content).items())
    return Number("Test accuracy", spread(content["chosen"]["test"]), "", rivals)


def _ends(content: dict[str, Any]) -> dict[str, float]:
    """Return the test accuracy of pooled and of separate networks."""
    rows = [row for row in content["comparison"] if row["method"] != "cross"]
    return {METHODS[row["method"]]: row["test"]["mean"] for row in rows}


def _gain(content: dict[str, Any]) -> Number:
    gains = [row for row in content["comparison"] if row["gain"] is not None]
    if not gains:
        note = "no network with 0 < ε < ∞ to compare with pooled and separate"
        return Number("Gain by sharing", "–", note)
    notes = [
        f"{METHODS[row['method']]} {points(row['gain'], row['standard_error'])}" for row in gains
    ]
    rival = min(gains, key=lambda row: row["gain"])
    name = f"Gain over {METHODS[rival['method']]}, the better extreme"
    return Number(name, points(rival["gain"]), "over " + " · ".join(notes))


def _path(content: dict[str, Any]) -> Figure:
    rows = []
    for point in content["path"]:
        mean, std = point["test"]["mean"], point["test"]["std"]
        low, high = (None, None) if std is None else (max(mean - std, 0.0), min(mean + std, 1.0))
        rows.append({"epsilon": point["epsilon"], "score": mean, "low": low, "high": high})
    baselines = [
        {"name": f"{row['method']} {percent(row['test']['mean'])}", "score": row["test"]["mean"]}
        for row in content.get("baselines", [])
    ]
    baselines.sort(key=lambda row: -row["score"])
    chosen = float(content["chosen"]["epsilon"])
    return Figure(
        "accuracy",
        f"Test accuracy by ε; {radius(chosen)} was chosen",
        accuracy_path(rows, _ends(content), chosen, baselines),
        "" if rows[0]["low"] is None else "Band: one standard deviation over seeds.",
    )


def _domain_lines(content: dict[str, Any]) -> Figure:
    rows = [
        {"epsilon": point["epsilon"], "series": domain["domain"], "score": domain["test"]["mean"]}
        for point in content["path"]
        for domain in point["domains"]
    ]
    return Figure("domains", "Test accuracy by ε in every domain", accuracy_lines(rows))


def _tables(content: dict[str, Any]) -> dict[str, Any]:
    """Return the chart and table of domains, and that of categories, for each method."""
    methods = {"pooled": 0.0, "cross-learned": content["chosen"]["between"], "separate": "inf"}
    radii = [float(point["epsilon"]) for point in content["path"]]
    chosen = {name: float(e) for name, e in methods.items() if e is not None}
    places = {name: radii.index(e) for name, e in chosen.items() if e in radii}
    at = {
        name: {domain["domain"]: domain for domain in content["path"][k]["domains"]}
        for name, k in places.items()
    }
    bound = at.get("cross-learned") or {d["domain"]: d for d in content["path"][0]["domains"]}
    bars = [
        {
            "domain": domain,
            "method": method,
            "epsilon": radius(chosen[method]),
            "accuracy": row["test"]["mean"],
            "spread": spread(row["test"]),
        }
        for method, rows in at.items()
        for domain, row in rows.items()
    ]
    domains = [
        {
            **domain,
            "accuracy": [rows[domain["domain"]]["test"]["mean"] for rows in at.values()],
            "distance": bound[domain["domain"]]["distance"],
            "pull": bound[domain["domain"]]["pull"],
        }
        for domain in content["data"]["domains"]
    ]
    categories = [
        {**row, "accuracy": [row["accuracy"][k] for k in places.values()]}
        for row in content["categories"]
    ]
    return {
        "bars": Figure("domain-bars", "Test accuracy of every domain", domain_bars(bars)),
        "columns": list(places),
        "domain_rows": domains,
        "category_rows": categories,
    }


def _confusion(stored: dict[str, Any]) -> dict[str, Any]:
    """Return the most frequent confusions, and a chart of the categories with lowest accuracy."""
    names, totals = stored["worst"]["categories"], stored["worst"]["totals"]
    cells = [
        {
            "truth": truth,
            "predicted": predicted,
            "count": count,
            "total": total,
            "share": count / total,
        }
        for truth, total, counts in zip(names, totals, stored["worst"]["counts"], strict=True)
        for predicted, count in zip(names, counts, strict=True)
    ]
    caption = "The categories with the lowest accuracy"
    return {
        "pairs": sorted(stored["pairs"], key=lambda pair: -pair["count"])[:_PAIRS],
        "confusion": Figure("confusion", caption, confusion(cells, names)),
    }


def _improvement(improvement: list[dict[str, Any]] | None) -> Figure | None:
    """Draw the paper's Figure 4: at the radius chosen for all, and at the best of each."""
    rows = [
        {
            "what": f"{'all domains' if row['domain'] == 'all' else row['domain']}, over "
            f"{_PAPER[row['over']]}",
            "at": at,
            "percent": row[value],
            "label": f"{row[value]:+.1f} (ε = {radius(row[epsilon])})".replace("-", "−"),
        }
        for row in improvement or []
        for at, value, epsilon in (
            ("ε chosen on validation images", "percent", "epsilon"),
            ("best ε on the test images", "best_percent", "best_epsilon"),
        )
        if row[value] is not None
    ]
    caption = "Relative improvement in test accuracy by cross-learning, in per cent"
    key = "Orange: ε chosen on validation images. Grey: best ε of each domain on test images."
    return Figure("improvement", caption, improvement_bars(rows), key) if rows else None


def _reported(content: dict[str, Any]) -> dict[str, Any] | None:
    """Compare improvements with those of the paper, at the best radius of each domain."""
    reported = content.get("reported", {"source": "", "improvement": []})
    ours = {
        (row["domain"], row["over"]): row["best_percent"] for row in content.get("improvement", [])
    }
    rows = [
        {**row, "ours": ours[row["domain"], row["over"]], "over": _PAPER[row["over"]]}
        for row in reported["improvement"]
        if (row["domain"], row["over"]) in ours
    ]
    return {"source": reported["source"], "rows": rows} if rows else None


def contact_sheet(path: Path) -> dict[str, str | int] | None:
    """Return a PNG picture as a data URL with its size, if it exists."""
    if not path.is_file():
        return None
    data = path.read_bytes()
    if not data.startswith(b"\x89PNG\r\n\x1a\n") or len(data) < 24:
        raise ValueError(f"{path} is not a PNG picture. Remove it or create it again.")
    # The header of the file begins with its size.
    width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
    address = f"data:image/png;base64,{b64encode(data).decode()}"
    return {"address": address, "width": width, "height": height}
