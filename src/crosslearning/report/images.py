"""The chapter on images: networks at several radii."""

import math
import shlex
from base64 import b64encode
from pathlib import Path
from typing import Any

import altair as alt

from crosslearning.evaluation.numbers import count, percent, points, radii_by_name, radius, spread
from crosslearning.report.drawing import CROSS, METHODS, Records, Spec, beside, chart, spec, tips
from crosslearning.report.page import Chapter, Number, Results
from crosslearning.report.paths import accuracy_lines, accuracy_path
from crosslearning.report.plots import Figure
from crosslearning.report.table import reliability

_NAMES = {"pooled": "pooled", "cross": "cross-learned", "separate": "separate"}
_LINEAR = 10.0  # per cent up to which the axis of improvements is about linear
_TICKS = [digit * 10.0**power for power in range(-2, 5) for digit in (1, 3)]
_PAPER = {"consensus": "pooled", "agnostic": "separate"}  # the paper's names


def images(results: Results) -> Chapter:
    """Build the chapter on networks for image domains."""
    content, folder = results.content, results.path.parent
    data, config, trust = content["data"], content["config"], content.get("reliability")
    rivals = tuple((name, percent(value)) for name, value in _ends(content).items())
    part = "linear head" if config.get("backbone") else "network"
    model = (config.get("backbone") or config["model"]).rpartition(":")[2]
    categories = count(len(data["categories"]), "category", "categories")
    domains, sheet = count(len(data["domains"]), "domain"), folder / "contact_sheet.png"
    return Chapter(
        kind="images",
        title=content["title"],
        subtitle=f"{count(data['images'], 'image')} of {categories} in {domains}; one {part} "
        f"({model}, {config['image_size']} px) per domain",
        sentence=content["sentence"],
        numbers=(
            _choice(content, folder),
            Number("Test accuracy", spread(content["chosen"]["test"]), "", rivals),
            _gain(content),
        ),
        remarks=content["remarks"],
        notes=content["notes"],
        content=content,
        details={
            "sheet": sheet.is_file() and b64encode(sheet.read_bytes()).decode(),
            "accuracy": _path(content),
            "domains": _domain_lines(content),
            **_tables(content),
            "trust": trust
            and reliability(trust["bins"], "category", trust["class"], kind="images"),
            "improvement": _improvement(content.get("improvement", [])),
            "reported": _reported(content),
            "facts": {
                name.replace("_", " "): ", ".join(map(str, one)) if isinstance(one, list) else one
                for name, one in {"data_fingerprint": data["fingerprint"], **config}.items()
            },
        },
    )


def _choice(content: dict[str, Any], folder: Path) -> Number:
    chosen, epsilon = content["chosen"], _one_radius(content)
    value = f"ε = {radii_by_name(chosen['epsilons'])}"
    if epsilon is not None:
        value = {0.0: "pooled", math.inf: "separate"}.get(epsilon, f"cross-learned, {value}")
    note = f"best of {count(len(content['path']), 'radius', 'radii')} on validation images; "
    note += f"on test images: {radii_by_name(chosen['best_on_test'])}"
    command = f"crosslearning predict {shlex.quote(folder.resolve().name)} new-images"
    saved = (folder / "models").is_dir()
    return Number("Use these networks", value, note, words=True, command=command if saved else None)


def _one_radius(content: dict[str, Any]) -> float | None:
    """Return the radius that was chosen, if it is the same for all domains."""
    radii = set(map(float, content["chosen"]["epsilons"].values()))
    return radii.pop() if len(radii) == 1 else None


def _ends(content: dict[str, Any]) -> dict[str, float]:
    """Return the test accuracy of pooled and of separate networks."""
    rows = [row for row in content["comparison"] if row["method"] != "cross"]
    return {_NAMES[row["method"]]: row["test"]["mean"] for row in rows}


def _gain(content: dict[str, Any]) -> Number:
    gains = [row for row in content["comparison"] if row["gain"] is not None]
    if not gains:
        note = "no network with 0 < ε < ∞ to compare with pooled and separate"
        return Number("Gain by sharing", "–", note)
    each = {_NAMES[row["method"]]: points(row["gain"], row["standard_error"]) for row in gains}
    rival = min(gains, key=lambda row: row["gain"])
    name = f"Gain over {_NAMES[rival['method']]}, the better extreme"
    return Number(name, points(rival["gain"]), "over " + " · ".join(map(" ".join, each.items())))


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
    chosen, title = _one_radius(content), "Test accuracy by ε, the same for all domains"
    if chosen is None:
        score = content["chosen"]["test"]["mean"]
        name = f"each domain at its chosen ε {percent(score)}"
        baselines.append({"name": name, "score": score})
    else:
        title = f"Test accuracy by ε; {radius(chosen)} was chosen"
    baselines.sort(key=lambda row: -row["score"])
    key = "" if rows[0]["low"] is None else "Band: one standard deviation over seeds."
    return Figure("accuracy", title, accuracy_path(rows, _ends(content), chosen, baselines), key)


def _domain_lines(content: dict[str, Any]) -> Figure:
    chosen = content["chosen"]["epsilons"]
    rows = [
        {
            "epsilon": point["epsilon"],
            "series": domain["domain"],
            "score": domain["test"]["mean"],
            "chosen": point["epsilon"] == chosen[domain["domain"]],
        }
        for point in content["path"]
        for domain in point["domains"]
    ]
    caption = "Test accuracy by ε in every domain; outlined at the chosen ε"
    return Figure("domains", caption, accuracy_lines(rows))


def _tables(content: dict[str, Any]) -> dict[str, Any]:
    """Return the tables of domains and of categories, for each method."""
    places = [float(point["epsilon"]) for point in content["path"]]
    names = [domain["domain"] for domain in content["data"]["domains"]]
    at = {
        _NAMES[row["method"]]: {name: places.index(float(e)) for name, e in row["epsilons"].items()}
        for row in content["comparison"]
        if {*map(float, row["epsilons"].values())} <= {*places}
    }
    bound = at.get("cross-learned") or dict.fromkeys(names, 0)
    scores = [{row["domain"]: row for row in point["domains"]} for point in content["path"]]
    domains = [
        {
            **domain,
            "accuracy": [scores[k[name]][name]["test"]["mean"] for k in at.values()],
            "epsilon": places[bound[name]],
            **{what: scores[bound[name]][name][what] for what in ("distance", "pull")},
        }
        for name, domain in zip(names, content["data"]["domains"], strict=True)
    ]
    categories = [
        {**row, "accuracy": [row["accuracy"][k[row["domain"]]] for k in at.values()]}
        for row in content["categories"]
    ]
    return {"columns": list(at), "domain_rows": domains, "category_rows": categories}


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
    low, high = _bent(min(0.0, *percents)), _bent(max(0.0, *percents))
    room = 0.35 * (high - low or 1.0)  # for the labels
    bent = low - room if low < 0 else low, high + room if high > 0 or low == 0 else high
    ends = [math.copysign(_LINEAR * math.expm1(abs(end)), end) for end in bent]
    coarse = [tick for tick in _TICKS if tick >= max(map(abs, percents)) / 100]
    ticks = [0.0, *(t for tick in coarse for t in (-tick, tick) if ends[0] <= t <= ends[1])]
    scale = alt.Scale(type="symlog", constant=_LINEAR, domain=ends, nice=False)
    title = f"%, logarithmic beyond ±{_LINEAR:.0f}"
    base = chart(values).encode(
        y=alt.Y("what:N", sort=None, title=None, axis=alt.Axis(labelLimit=260)),
        yOffset=alt.YOffset("at:N", sort=kinds),
        x=alt.X("percent:Q", title=title, scale=scale, axis=alt.Axis(values=ticks)),
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


def _bent(percent: float) -> float:
    """Where the chart draws a percentage: a domain that was at chance may gain a thousandfold."""
    return math.copysign(math.log1p(abs(percent) / _LINEAR), percent)


def _reported(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Compare improvements with those of the paper, at the best radius of each domain."""
    rows = content.get("improvement", [])
    ours = {(row["domain"], row["over"]): row["best_percent"] for row in rows}
    return [
        {**row, "ours": ours[row["domain"], row["over"]], "over": _PAPER[row["over"]]}
        for row in content.get("reported", {"improvement": []})["improvement"]
        if (row["domain"], row["over"]) in ours
    ]
