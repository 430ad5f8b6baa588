"""Tables of what `pictures.py` measured, and the page of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pandas as pd
from networks_tables import table
from scipy import stats

from crosslearning.evaluation.numbers import radius_name

if TYPE_CHECKING:
    from collections.abc import Iterable

OURS, BY_DOMAIN = "within ε of the centre", "within ε, a radius for each domain"
HELD = "within ε of the pooled network"
POOLED, SEPARATE, TUNED = "pooled (ε = 0)", "separate (ε = ∞)", "pooled, then fine-tuned"
EITHER = "pooled or fine-tuned, as is best for each domain"
ENDS = "pooled or separate, as is best for each domain"
NAMES = {"pooled": POOLED, "cross": OURS, "separate": SEPARATE, "fine-tuned": TUNED}
SCORES = ["validation", "validation_loss", "test", "test_loss"]


def labelled(runs: pd.DataFrame) -> pd.DataFrame:
    """Name methods as the page does; a baseline that is a job of its own has the job's name."""
    radial = runs["job"].str.startswith(("radii", "ε", "spring"))
    return runs.assign(method=runs["method"].replace(NAMES).where(radial, runs["job"]))


def complete(runs: pd.DataFrame) -> pd.DataFrame:
    """Leave out seeds that are not finished, of which some jobs are missing."""
    jobs = runs.groupby("seed")["job"].transform("nunique")
    return runs[jobs == jobs.max()]


def chosen(runs: pd.DataFrame, by: Iterable[str] = ()) -> pd.DataFrame:
    """Keep, for each method and seed, the setting with the lowest log loss in validation."""
    found = []
    for _, some in runs.groupby(["method", "seed", *by]):
        losses = some.groupby(["epsilon", "stiffness"])["validation_loss"].mean()
        epsilon, stiffness = losses.idxmin()
        found.append(some[(some["epsilon"] == epsilon) & (some["stiffness"] == stiffness)])
    return pd.concat(found)


def by_domain(runs: pd.DataFrame, name: str, *methods: str) -> pd.DataFrame:
    """Keep, for each seed and domain, the best of some methods in validation, under a new name."""
    return chosen(runs[runs["method"].isin(methods)].assign(method=name), by=["domain"])


def means(runs: pd.DataFrame, score: str) -> pd.DataFrame:
    """Means over domains: a row for each seed, a column for each method."""
    return runs.groupby(["seed", "method"])[score].mean().unstack("method")  # noqa: PD010


def gain(ours: pd.Series[float], other: pd.Series[float], digits: int) -> str:
    """Mean of paired differences, its standard error, and p from Student's t."""
    difference = (ours - other).dropna()
    if len(difference) < 2 or not difference.any():
        return ""
    p = stats.ttest_1samp(difference, 0).pvalue
    return f"{difference.mean():+.{digits}f} ± {difference.sem():.{digits}f} ({p:.2g})"


def compared(runs: pd.DataFrame, ours: str = OURS) -> str:
    """Accuracy and log loss of each method, and what `ours` gains over it."""
    accuracy, loss = 100 * means(runs, "test"), means(runs, "test_loss")
    rows = []
    for method in accuracy.mean().sort_values(ascending=False).index:
        row = [method, f"{accuracy[method].mean():.1f}", f"{loss[method].mean():.3f}"]
        if method == ours:
            rows.append([f"**{cell}**" for cell in row] + ["", ""])
            continue
        gains = gain(accuracy[ours], accuracy[method], 1), gain(loss[method], loss[ours], 3)
        rows.append([*row, *gains])
    head = ["method", "accuracy, %", "log loss", "gain of ours in accuracy (p)"]
    return table([*head, "gain in log loss (p)"], rows)


def domains(runs: pd.DataFrame) -> str:
    """Accuracy and log loss of each method in each domain."""
    accuracy, loss = (runs.pivot_table(score, "method", "domain") for score in SCORES[2:])
    order = accuracy.mean(axis=1).sort_values(ascending=False).index
    rows = [
        [method] + [f"{100 * accuracy[d][method]:.1f} / {loss[d][method]:.2f}" for d in accuracy]
        for method in order
    ]
    return table(["accuracy, % / log loss", *accuracy], rows)


def path(runs: pd.DataFrame, last: str) -> str:
    """Accuracy and log loss at each radius, and gains over both ends, of which ∞ is `last`."""
    by_radius = {
        score: runs.groupby(["seed", "epsilon"])[score].mean().unstack("epsilon")  # noqa: PD010
        for score in SCORES[2:]
    }
    test, rows = 100 * by_radius["test"], []
    for epsilon in test:
        row = [radius_name(epsilon), f"{test[epsilon].mean():.1f}"]
        row.append(f"{by_radius['test_loss'][epsilon].mean():.3f}")
        rows.append([*row, *(gain(test[epsilon], test[end], 1) for end in (0.0, math.inf))])
    head = ["ε", "accuracy, %", "log loss", "gain over pooled (p)", f"gain over {last} (p)"]
    return table(head, rows)


def choices(runs: pd.DataFrame, ours: str = OURS) -> str:
    """Say how many seeds chose each radius."""
    counts = runs[runs["method"] == ours].groupby("epsilon")["seed"].nunique()
    named = ", ".join(f"{radius_name(epsilon)} ({count})" for epsilon, count in counts.items())
    return f"Validation chose ε, in brackets for how many seeds: {named}."


def pooled_first(runs: pd.DataFrame) -> list[str]:
    """Section of the runs that are pooled first, with all baselines."""
    after = runs[runs["method"].isin([POOLED, OURS, TUNED])]
    either = by_domain(runs, EITHER, POOLED, TUNED)
    best = pd.concat([chosen(runs), by_domain(runs, BY_DOMAIN, POOLED, OURS, SEPARATE), either])
    return [compared(best, BY_DOMAIN), choices(best), domains(best), path(after, "fine-tuned")]


def from_the_start(runs: pd.DataFrame) -> list[str]:
    """Section of the runs within ε from the first step: Algorithm 1."""
    radii = runs[runs["method"].isin([POOLED, OURS, SEPARATE])]
    best = pd.concat([chosen(runs), by_domain(runs, BY_DOMAIN, POOLED, OURS, SEPARATE)])
    return [compared(best), choices(best), path(radii, "separate"), domains(chosen(radii))]


def heads(runs: pd.DataFrame) -> list[str]:
    """Section of heads on frozen features, which also has the better end for each domain."""
    ends = by_domain(runs, ENDS, POOLED, SEPARATE)
    best = pd.concat([chosen(runs), by_domain(runs, BY_DOMAIN, POOLED, OURS, SEPARATE), ends])
    return [compared(best, BY_DOMAIN), choices(best), path(runs, "separate"), domains(best)]


def with_baselines(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs within ε from the first step, and all else, which is that of the other kind."""
    first = runs[runs["kind"] == "first step"]
    others = runs[(runs["kind"] == "pooled first") & (runs["method"] != OURS)]
    return pd.concat([first, others.merge(first[["images", "seed"]].drop_duplicates())])


def with_moving_centre(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs within ε of the pooled network, and those of the same seeds whose centre moves."""
    held = runs[runs["kind"] == "held centre"].assign(method=HELD)
    others = runs[(runs["kind"] == "pooled first") & runs["method"].isin([POOLED, OURS, TUNED])]
    return pd.concat([held, others.merge(held[["images", "seed"]].drop_duplicates())])


def held_centre(runs: pd.DataFrame) -> list[str]:
    """Section of the runs whose centre stays where the pooled epochs left it."""
    best, held = chosen(runs), runs[runs["method"] != OURS]
    return [compared(best, HELD), choices(best, HELD), path(held, "fine-tuned"), domains(best)]


def last_block(runs: pd.DataFrame) -> list[str]:
    """Section of the runs from pretrained weights."""
    after = runs[runs["method"].isin([POOLED, OURS, TUNED])]
    best = pd.concat([chosen(runs), by_domain(runs, EITHER, POOLED, TUNED)])
    return [compared(best), choices(best), path(after, "fine-tuned"), domains(best)]


def one_seed(runs: pd.DataFrame) -> list[str]:
    """Section of a single seed: nothing is paired."""
    return [path(runs, "separate"), domains(runs.assign(method=runs["job"]))]


TITLES = {0.3: "30 % of the training images", 1.0: "all images"}
LATE = """## Pooled first, {part}

As `crosslearning train --baselines` trains, but with images of 32 px and half as many channels
(`batchnorm_cnn` of width 8). BatchNorm statistics belong to each domain, unless they are called
shared. Nine of the 12 epochs are pooled, and the radii 0.2, 0.4 and 0.6 apply to the other three.
Springs have stiffness 10 or 100. Ours is “{by_domain}”: each domain's network is from the radius
that is best on that domain's validation images, 0 and ∞ (separate) included. “{ours}” has one
radius between these for all domains. {seeds} seeds:"""
EARLY = """## Algorithm 1 as in the paper, {part}

The same network, within ε from the first step, without pooling first. The paper's claim is that
some ε is better than both ends, consensus (ε = 0) *and* agnostic (ε = ∞). Here ours is within ε
from the first step, with one radius for all domains, and all else is as above. {seeds} seeds:"""
PLAIN = """## Algorithm 1 with a plain network, {part}

`small_cnn` of width 8, without BatchNorm; 20 epochs, learning rate 0.05. {seeds} seeds:"""

HELD_CENTRE = """## A centre that stays with the pooled network, {part}

As in the first table, but the centre stops moving when the radii (0.2, 0.4, 0.6 and 1) apply, so
that a small radius means “near the pooled network”. “{ours}” is the run above, whose centre goes
with the domains. {seeds} seeds:"""
LONGER = """## More epochs within ε, {part}

As in the first table, but of 36 epochs 12 are pooled and 24 are within ε, where the first table has
3; the radii are 0.6, 1 and 1.5. The alternatives have 36 epochs, too. {seeds} seeds:"""
HEADS = """## Linear heads on frozen features, {part}

As `crosslearning train pictures32 --backbone efficientnet_lite0` fits them: the 1,280 features of
an ImageNet network for images of 224 px, computed once, and one linear head for each domain. ε is a
share of the radius at which the heads of a seed are separate. {seeds} seeds:"""
LAST = """## Fine-tuning the last block of a pretrained network, {part}

The same backbone, for images of 128 px. All blocks but the last are frozen, and the domains share
them. The last block and the final convolution, which start from the pretrained weights, and a new
classifier (1.1 million parameters) are trained for each domain, six epochs pooled and ten within ε.
The pictures are not augmented: what the frozen part makes of them is computed once. {seeds}
seeds:"""
ALEXNET = """## The paper's network, {part}

AlexNet with hidden layers of 256, 4.9 million parameters, images of 64 px, within ε from the first
step; 20 epochs of Adam with a cosine schedule from 0.001, 16 images of each domain in a step,
without augmentation and dropout (the paper: 224 px, 30 epochs of SGD, one image of each domain, a
constant 0.001). Rate and augmentation were chosen by the training loss of the pooled network with
seed 100; with six epochs from 0.0005 and dropout, a former setting, networks had hardly learned.
{seeds} seed:"""


def page(runs: pd.DataFrame, about: str) -> str:
    """Write a section for each kind of run and share of the images."""
    question, *paragraphs, _ = about.split("\n\n")
    text = [f"# {question}", "`python benchmarks/pictures.py` writes this page.", *paragraphs]
    runs = labelled(runs)
    late, plain = runs[runs["kind"] == "pooled first"], runs[runs["kind"] == "plain"]
    sections = [
        (LATE, late, pooled_first),
        (LONGER, runs[runs["kind"] == "longer"], pooled_first),
        (HELD_CENTRE, with_moving_centre(runs), held_centre),
        (EARLY, with_baselines(runs), from_the_start),
        (PLAIN, plain, from_the_start),
        (HEADS, runs[runs["kind"] == "heads"], heads),
        (LAST, runs[runs["kind"] == "last block"], last_block),
        (ALEXNET, runs[runs["kind"] == "alexnet"], one_seed),
    ]
    for title, some, write in sections:
        for share, rows in some.groupby("images"):
            part = complete(rows)
            seeds = part["seed"].nunique()
            head = title.format(part=TITLES[share], seeds=seeds, by_domain=BY_DOMAIN, ours=OURS)
            text += [head, *write(part)]
    return "\n\n".join(text) + "\n"
