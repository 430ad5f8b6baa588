"""What did cross-learning do on icons65? Writes a page from the results of two sweeps.

The sweeps themselves are run by the commands in ``SWEEPS``, each about half an hour on two cores.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from networks_tables import table

from crosslearning.evaluation.numbers import radius_name, spread

RESULTS = Path(__file__).parent / "results"
REPRODUCE = "crosslearning reproduce office-home --seeds 5"
SWEEPS = {
    "icons65": ("All training images", REPRODUCE),
    "icons65-scarce": (
        "30 % of the training images",
        f"{REPRODUCE} --train-fraction 0.3 --epochs 24",
    ),
}


def radii(results: dict[str, Any]) -> str:
    domains = [row["domain"] for row in results["data"]["domains"]]
    rows = []
    for point in results["path"]:
        accuracies = [point[part] for part in ("validation", "test", "test_images")]
        accuracies += [domain["test"] for domain in point["domains"]]
        cells = [spread(accuracy).removesuffix(" %") for accuracy in accuracies]
        distance = f"{point['distance']:.3g}"
        rows.append([radius_name(float(point["epsilon"])), *cells, distance])
    return table(["ε", "validation", "test", "test, over images", *domains, "distance"], rows)


def improvements(results: dict[str, Any]) -> str:
    rows = []
    for row in results["improvement"]:
        common, best = radius_name(row["epsilon"]), radius_name(row["best_epsilon"])
        here = [f"{row['percent']:+.1f} (ε = {common})", f"{row['best_percent']:+.1f} (ε = {best})"]
        rows.append([row["domain"], row["over"], *here])
    return table(["domain", "over", "ε by validation, %", "best ε on test, %"], rows)


def differences(results: dict[str, Any]) -> str:
    """Test accuracy minus that of pooling with the same seed, in points."""
    seeds = results["config"]["seeds"]
    test = {(float(run["epsilon"]), run["seed"]): run["test"] for run in results["runs"]}
    rows = [
        [radius_name(radius), *(f"{100 * (test[radius, s] - test[0.0, s]):+.1f}" for s in seeds)]
        for radius in sorted({radius for radius, _ in test} - {0.0})
    ]
    return table(["ε", *(f"seed {seed}" for seed in seeds)], rows)


def confusions(results: dict[str, Any]) -> str:
    pairs = sorted(results["confusion"]["pairs"], key=lambda pair: -pair["count"])[:8]
    return "; ".join(
        f"{pair['truth']} taken for {pair['predicted']} ({pair['domain']}, {pair['count']} of "
        f"{pair['of']})"
        for pair in pairs
    )


def section(folder: str, title: str, command: str) -> str:
    results = json.loads((RESULTS / folder / "results.json").read_text())
    images = "; ".join(
        f"{row['domain']} {row['train']} / {row['validation']} / {row['test']}"
        for row in results["data"]["domains"]
    )
    minutes = results["provenance"]["seconds"] / 60
    return f"""## {title}

`{command} --out benchmarks/results/{folder}` ({minutes:.0f} minutes of training on a machine
shared with other work; the files of single runs and the PDFs are left out here).

**{results["sentence"]}**

Images to train on / to validate on / to test on, first seed: {images}.

{radii(results)}

Difference to pooling (ε = 0) on the test images, in points, seed by seed:

{differences(results)}

Improvement of the test accuracy:

{improvements(results)}

![accuracy]({folder}/accuracy.png)
![improvement]({folder}/improvement.png)

Commonest confusions at the chosen ε, all seeds: {confusions(results)}.
"""


def page() -> str:
    results = json.loads((RESULTS / "icons65" / "results.json").read_text())
    config, paper, versions = (
        results["config"],
        results["reported"],
        results["provenance"]["versions"],
    )
    sections = "\n".join(section(name, *about) for name, about in SWEEPS.items())
    theirs = "; ".join(
        f"{row['domain']} {row['percent']} % over {row['over']}" for row in paper["improvement"]
    )
    return f"""# The paper's experiment on icons65, measured

`python benchmarks/icons65.py` writes this page from the results of two sweeps.

{config["model"]} at {config["image_size"]} px, {config["optimizer"]} with learning rate
{config["learning_rate"]} falling along a cosine and momentum {config["momentum"]},
{config["batch"]} images per domain and step, {config["epochs"]} epochs (24 with scarce data);
crosslearning {versions["crosslearning"]}, torch {versions["torch"]}.

Accuracies are in %, the mean over categories, then over domains, ± one standard deviation over
five seeds, each of which draws its own split (by drawing, 4/5 to learn from), start and order.
Every run trains on the training part without a fifth of it, the validation images, which choose
ε. Differences are paired over seeds; "may be chance" is a p-value above 0.05 of Student's t, not
corrected for the number of radii. *distance* is the largest realised one, mean over seeds.

How these numbers came about:

- Seeds 0, 1 and 2 were planned. After they were seen, 3 and 4 were added to both sweeps. With the
  three alone, validation chose the same ε = 0.3 and ε = 0; ε = 0.3 was 1.2 points above pooling
  on all training images (standard error 0.6), and the radius chosen between 0 and ∞ with scarce
  data was 0.1, 0.6 points below pooling (standard error 0.5).
- Optimiser, schedule, number of epochs and range of radii were picked after 15 trial runs on one
  other split of the same icons, with validation and test accuracies in view, and to fit the time
  at hand. So the settings are not blind to these images. None was changed once a run of the
  sweeps had been seen.

![contact sheet](icons65/contact_sheet.png)

{sections}
## What the paper reports

For Office-Home with AlexNet-256, not measured here: agnostic {100 * paper["agnostic"]:.2f} %,
consensus {100 * paper["consensus"]:.2f} %, best at ε = {radius_name(paper["best_epsilon"])};
improvements: {theirs}.
"""


if __name__ == "__main__":
    (RESULTS / "icons65.md").write_text(page())
