"""The chapter on images: networks at several radii."""

from __future__ import annotations

import math
import shlex
from base64 import b64encode
from pathlib import Path
from typing import Any

import altair as alt

from crosslearning.evaluation.numbers import count, percent, points, radius, spread
from crosslearning.report.drawing import (
    CROSS,
    INK,
    METHODS,
    Records,
    Spec,
    beside,
    chart,
    spec,
    tips,
)
from crosslearning.report.page import Chapter, Number, Results
from crosslearning.report.paths import accuracy_lines, accuracy_path
from crosslearning.report.plots import Figure
from crosslearning.report.table import reliability

_NAMES = {"pooled": "pooled", "cross": "cross-learned", "separate": "separate"}
_PAPER = {"consensus": "pooled", "agnostic": "separate"}  # the paper's names


def images(results: Results) -> Chapter:
    """Build the chapter on networks for image domains."""
    content, folder = results.content, results.path.parent
    data, config, trust = content["data"], content["config"], content.get("reliability")
    part = "linear head" if config.get("backbone") else "network"
    model = (config.get("backbone") or config["model"]).rpartition(":")[2]
    return Chapter(
        kind="images",
        title=content["title"],
        subtitle=f"{count(data['images'], 'image')} of "
        f"{count(len(data['categories']), 'category', 'categories')} in "
        f"{count(len(data['domains']), 'domain')}; one {part} ({model}, {config['image_size']} px) "
        "per domain",
        sentence=content["sentence"],
        numbers=(_choice(content, folder), _accuracy(content), _gain(content)),
        remarks=content["remarks"],
        notes=content["notes"],
        content=content,
        details={
            "sheet": contact_sheet(folder / "contact_sheet.png"),
            "accuracy": _path(content),
            "domains": _domain_lines(content),
            **_tables(content),
            "trust": trust
            and reliability(trust["bins"], "category", trust["class"], kind="images"),
            "confusion": _confusion(content["confusion"]["worst"]),
            "improvement": _improvement(content.get("improvement", [])),
            "reported": _reported(content),
            "facts": {"data fingerprint": data["fingerprint"]}
            | {
                name.replace("_", " "): ", ".join(map(str, one)) if isinstance(one, list) else one
                for name, one in config.items()
            },
        },
    )


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
    return {_NAMES[row["method"]]: row["test"]["mean"] for row in rows}


def _gain(content: dict[str, Any]) -> Number:
    gains = [row for row in content["comparison"] if row["gain"] is not None]
    if not gains:
        note = "no network with 0 < ε < ∞ to compare with pooled and separate"
        return Number("Gain by sharing", "–", note)
    notes = [
        f"{_NAMES[row['method']]} {points(row['gain'], row['standard_error'])}" for row in gains
    ]
    rival = min(gains, key=lambda row: row["gain"])
    name = f"Gain over {_NAMES[rival['method']]}, the better extreme"
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


def domain_bars(values: Records) -> Spec:
    """Draw the test accuracy of every domain with every method."""
    drawn = {row["method"] for row in values}
    colours = {name: METHODS[method] for method, name in _NAMES.items() if name in drawn}
    methods = list(colours)
    scale = alt.Scale(domain=methods, range=list(colours.values()))
    base = chart(values).encode(
        y=alt.Y("domain:N", sort=None, title=None, axis=alt.Axis(labelFontSize=13)),
        yOffset=alt.YOffset("method:N", sort=methods),
        x=alt.X("accuracy:Q", axis=alt.Axis(title=None, orient="top", format="%", tickCount=5)),
    )
    bars = base.mark_bar(height=13, cornerRadiusEnd=2).encode(
        color=alt.Color("method:N", sort=methods, scale=scale, legend=None),
        tooltip=tips(
            domain="domain",
            method="method",
            epsilon="ε",
            accuracy=("test accuracy", ".1%"),
            spread="over seeds",
        ),
    )
    text = base.mark_text(align="left", dx=4, fontSize=11)
    return spec(
        "Test accuracy of each domain: pooled, cross-learned and separate networks",
        bars,
        text.encode(text=alt.Text("accuracy:Q", format=".1%")),
        height=len({row["domain"] for row in values}) * (17 * len(methods) + 12),
    )


def _confusion(worst: dict[str, Any]) -> Figure:
    """Draw the confusion matrix of the categories with the lowest accuracy."""
    names, totals = worst["categories"], worst["totals"]
    cells = [
        {"truth": truth, "predicted": predicted, "count": n, "total": total, "share": n / total}
        for truth, total, counts in zip(names, totals, worst["counts"], strict=True)
        for predicted, n in zip(names, counts, strict=True)
    ]
    across = alt.Axis(orient="top", labelAngle=-50, labelLimit=100, domain=False, ticks=False)
    base = chart(cells).encode(
        y=alt.Y("truth:N", sort=names, title="true category", axis=alt.Axis(labelLimit=120)),
        x=alt.X("predicted:N", sort=names, title="predicted category", axis=across),
        tooltip=tips(
            truth="is",
            predicted="predicted",
            count=("images", ","),
            total=("of", ","),
            share=("share", ".0%"),
        ),
    )
    right = alt.datum.truth == alt.datum.predicted
    # Opacity, not a colour scheme, as the page may be light or dark.
    shade = alt.Scale(domain=[0, 1], range=[0.04, 1])
    squares = base.mark_rect(stroke="var(--surface)").encode(
        color=alt.condition(right, alt.value(INK), alt.value(CROSS)),
        opacity=alt.Opacity("share:Q", scale=shade, legend=None),
    )
    side, about = 24 * len(names), "Confusion between the categories with the lowest accuracy"
    drawn = spec(about, squares, height=side, width=side)
    return Figure("confusion", "The categories with the lowest accuracy", drawn)


def _improvement(improvement: list[dict[str, Any]]) -> Figure | None:
    """Draw the paper's Figure 4: at the radius chosen for all, and at the best of each."""
    rows = [
        {
            "what": f"{'all domains' if row['domain'] == 'all' else row['domain']}, over "
            f"{_PAPER[row['over']]}",
            "at": at,
            "percent": row[value],
            "label": f"{row[value]:+.1f} (ε = {radius(row[epsilon])})".replace("-", "−"),
        }
        for row in improvement
        for at, value, epsilon in (
            ("ε chosen on validation images", "percent", "epsilon"),
            ("best ε on the test images", "best_percent", "best_epsilon"),
        )
        if row[value] is not None
    ]
    caption = "Relative improvement in test accuracy by cross-learning, in per cent"
    key = "Orange: ε chosen on validation images. Grey: best ε of each domain on test images."
    return Figure("improvement", caption, improvement_bars(rows), key) if rows else None


def improvement_bars(values: Records) -> Spec:
    """Draw improvements, two bars for each domain and baseline."""
    kinds = list(dict.fromkeys(row["at"] for row in values))
    percents = [row["percent"] for row in values]
    low, high = min(0.0, *percents), max(0.0, *percents)
    room = 0.35 * (high - low or 1.0)  # for the labels
    ends = [low - room if low < 0 else low, high + room if high > 0 or low == 0 else high]
    base = chart(values).encode(
        y=alt.Y("what:N", sort=None, title=None, axis=alt.Axis(labelLimit=260)),
        yOffset=alt.YOffset("at:N", sort=kinds),
        x=alt.X("percent:Q", title="%", scale=alt.Scale(domain=ends, nice=False)),
    )
    colours = alt.Scale(domain=kinds, range=[CROSS, METHODS["pooled"]])
    bars = base.mark_bar(height=11).encode(
        color=alt.Color("at:N", scale=colours, legend=None),
        tooltip=tips(what=" ", at=" ", label=" "),
    )
    above, text = alt.datum.percent >= 0, base.encode(text="label:N")
    return spec(
        "Improvement in test accuracy by cross-learning over separate and pooled networks",
        bars,
        text.transform_filter(above).mark_text(**beside(left=False, gap=4), fontSize=11),
        text.transform_filter(~above).mark_text(**beside(left=True, gap=4), fontSize=11),
        height=36 * len({row["what"] for row in values}),
    )


def _reported(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Compare improvements with those of the paper, at the best radius of each domain."""
    improvement = content.get("improvement", [])
    ours = {(row["domain"], row["over"]): row["best_percent"] for row in improvement}
    return [
        {**row, "ours": ours[row["domain"], row["over"]], "over": _PAPER[row["over"]]}
        for row in content.get("reported", {"improvement": []})["improvement"]
        if (row["domain"], row["over"]) in ours
    ]


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
