"""The chapter on images: networks at several radii."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

from crosslearning.evaluation.numbers import count, percent, points, radius, spread
from crosslearning.report.chapters.chapter import Chapter, Figure, Number, Remark
from crosslearning.report.chapters.provenance import provenance
from crosslearning.report.charts.images import confusion, domain_bars, improvement_bars
from crosslearning.report.charts.radius import score_lines, score_path
from crosslearning.report.reading import Results

METHODS = {"pooled": "pooled", "cross": "cross-learned", "separate": "separate"}
_PAPER = {"consensus": "pooled", "agnostic": "separate"}  # the paper's names
_ALL = {"all": "all domains"}
_PAIRS = 12


def images(results: Results) -> Chapter:
    """Build the chapter on networks for image domains."""
    content = results.content
    data, config = content["data"], content["config"]
    shown = figures(content)
    return Chapter(
        kind="images",
        title=content["title"],
        subtitle=f"{count(data['images'], 'image')} of "
        f"{count(len(data['categories']), 'category', 'categories')} in "
        f"{count(len(data['domains']), 'domain')}; one "
        f"{'linear head' if config.get('backbone') else 'network'} "
        f"({(config.get('backbone') or config['model']).rpartition(':')[2]}, "
        f"{config['image_size']} px) per domain",
        sentence=content["sentence"],
        numbers=(_choice(content), _accuracy(content), _gain(content)),
        remarks=tuple(Remark(**remark) for remark in content.get("remarks", [])),
        notes=tuple(content.get("notes", [])),
        details={
            "several_seeds": len(config["seeds"]) > 1,
            "accuracy": shown["accuracy"],
            "domains": shown["domains"],
            "improvement": shown.get("improvement"),
            "bars": domain_bars(_bars(content)),
            "sheet": contact_sheet(results.folder / "contact_sheet.png"),
            **_tables(content),
            **_confusion(content["confusion"]),
            "baselines": [
                {
                    **row,
                    "test": spread(row["test"]),
                    "gain": row["gain"] and points(row["gain"], row["standard_error"]),
                }
                for row in content.get("baselines", [])
            ],
            "reported": _reported(content),
            "provenance": provenance(
                content,
                **{name.replace("_", " "): _text(value) for name, value in config.items()},
                **{"data fingerprint": data.get("fingerprint")},
            ),
        },
    )


def figures(content: dict[str, Any]) -> dict[str, Figure]:
    """Return the charts that can be drawn as files, by name."""
    found = {"accuracy": _path(content), "domains": _domain_lines(content)}
    if rows := _improvement(content):
        caption = "Relative improvement in test accuracy by cross-learning, in per cent"
        key = "Orange: ε chosen on validation images. Grey: best ε of each domain on test images."
        found["improvement"] = Figure(caption, improvement_bars(rows), key)
    return found


def _text(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def _choice(content: dict[str, Any]) -> Number:
    chosen = content["chosen"]
    return Number(
        "Chosen ε",
        radius(chosen["epsilon"]),
        f"best of {count(len(content['path']), 'radius', 'radii')} on validation images; "
        f"on test images it is {radius(chosen['best_on_test'])}",
    )


def _accuracy(content: dict[str, Any]) -> Number:
    rivals = [
        (METHODS[row["method"]], percent(row["test"]["mean"]))
        for row in content["comparison"]
        if row["method"] != "cross"
    ]
    return Number("Test accuracy", spread(content["chosen"]["test"]), "", tuple(rivals))


def _gain(content: dict[str, Any]) -> Number:
    gains = {row["method"]: row for row in content["comparison"] if row["gain"] is not None}
    if not gains:
        return Number(
            "Gain by sharing", "–", "no network with 0 < ε < ∞ to compare with pooled and separate"
        )
    notes = [
        f"{METHODS[method]} {points(row['gain'], row['standard_error'])}"
        for method, row in gains.items()
    ]
    rival = min(gains.values(), key=lambda row: row["gain"])
    return Number(
        f"Gain over {METHODS[rival['method']]}, the better extreme",
        points(rival["gain"]),
        "over " + " · ".join(notes),
    )


def _at(content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the points of the path to compare, by method."""
    between = content["chosen"]["between"]
    wanted = {"pooled": 0.0, "cross-learned": between, "separate": "inf"}
    points = {float(point["epsilon"]): point for point in content["path"]}
    radii = {method: float(e) for method, e in wanted.items() if e is not None}
    return {method: points[e] for method, e in radii.items() if e in points}


def _bars(content: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "domain": domain["domain"],
            "method": method,
            "epsilon": radius(point["epsilon"]),
            "accuracy": domain["test"]["mean"],
            "spread": spread(domain["test"]),
        }
        for method, point in _at(content).items()
        for domain in point["domains"]
    ]


def _path(content: dict[str, Any]) -> Figure:
    rows = []
    for point in content["path"]:
        mean, std = point["test"]["mean"], point["test"]["std"]
        ends = (None, None) if std is None else (mean - std, mean + std)
        rows.append({"epsilon": point["epsilon"], "score": mean, "low": ends[0], "high": ends[1]})
    levels = {
        METHODS[row["method"]]: row["test"]["mean"]
        for row in content["comparison"]
        if row["method"] != "cross"
    }
    chosen = float(content["chosen"]["epsilon"])
    return Figure(
        f"Test accuracy by ε; {radius(chosen)} was chosen",
        score_path(rows, levels, chosen, name="test accuracy", form=".1%"),
        "Band: one standard deviation over seeds." * (rows[0]["low"] is not None),
    )


def _domain_lines(content: dict[str, Any]) -> Figure:
    rows = [
        {"epsilon": point["epsilon"], "series": domain["domain"], "score": domain["test"]["mean"]}
        for point in content["path"]
        for domain in point["domains"]
    ]
    return Figure("Test accuracy by ε in every domain", score_lines(rows, name="test accuracy"))


def _tables(content: dict[str, Any]) -> dict[str, Any]:
    """Return rows of the tables of domains and of categories, with a column for each method."""
    at = _at(content)
    columns = {name: content["path"].index(point) for name, point in at.items()}
    shown = at.get("cross-learned", content["path"][0])
    bound = {domain["domain"]: domain for domain in shown["domains"]}
    domains = [
        {
            **domain,
            "accuracy": [_of(at[name], domain["domain"]) for name in at],
            "distance": bound[domain["domain"]]["distance"],
            "pull": bound[domain["domain"]]["pull"],
        }
        for domain in content["data"]["domains"]
        if domain["domain"] in bound
    ]
    categories = [
        {**row, "accuracy": [row["accuracy"][k] for k in columns.values()]}
        for row in content["categories"]
    ]
    return {"columns": list(columns), "domain_rows": domains, "category_rows": categories}


def _of(point: dict[str, Any], name: str) -> float | None:
    return next((d["test"]["mean"] for d in point["domains"] if d["domain"] == name), None)


def _confusion(stored: dict[str, Any] | None) -> dict[str, Any]:
    """Return the most frequent confusions, and a chart of the categories with lowest accuracy."""
    if not stored:
        return {"pairs": [], "confusion": None}
    names, totals = stored["worst"]["categories"], stored["worst"]["totals"]
    cells = [
        {
            "truth": truth,
            "predicted": predicted,
            "count": count,
            "total": total,
            "share": count / total if total else 0.0,
        }
        for truth, total, counts in zip(names, totals, stored["worst"]["counts"], strict=True)
        for predicted, count in zip(names, counts, strict=True)
    ]
    pairs = sorted(stored["pairs"], key=lambda pair: -pair["count"])[:_PAIRS]
    return {"pairs": pairs, "confusion": confusion(cells, names) if cells else None}


def _improvement(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of the paper's Figure 4: at the radius chosen for all, and at the best of each."""
    return [
        {
            "what": f"{_ALL.get(row['domain'], row['domain'])}, over {_PAPER[row['over']]}",
            "at": at,
            "percent": row[value],
            "label": f"{row[value]:+.1f} (ε = {radius(row[epsilon])})".replace("-", "−"),
        }
        for row in content.get("improvement", [])
        for at, value, epsilon in (
            ("ε chosen on validation images", "percent", "epsilon"),
            ("best ε on the test images", "best_percent", "best_epsilon"),
        )
        if row[value] is not None
    ]


def _reported(content: dict[str, Any]) -> dict[str, Any] | None:
    """Compare improvements with those of the paper, at the best radius of each domain."""
    reported = content.get("reported") or {"source": "", "improvement": []}
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
