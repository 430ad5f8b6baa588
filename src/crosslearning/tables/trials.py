"""Candidates tried on held-out rows."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from crosslearning.convex.statistics import Statistics
from crosslearning.evaluation.choice import nested
from crosslearning.evaluation.scores import Scores
from crosslearning.linear import CrossBayesianRidge
from crosslearning.tables._blending import blend_weights
from crosslearning.tables._spaces import Spaces
from crosslearning.tables.candidates import Candidate, Sharing
from crosslearning.tables.metrics import METRICS, Metric
from crosslearning.tables.rows import Rows, fitted, predicted, told, without
from crosslearning.tables.splits import Splits

Array = NDArray[np.float64]
_ROUNDING = 1e-9  # relative to the best score; smaller differences are ties
_MOST_SUMS = 5e7  # numbers in the sums of tasks and folds; beyond, rows are summed again
_MOST_SPREADS = 20_000  # rows with a predicted standard deviation
_MOST_BLENDED = 200_000  # rows


@dataclass(frozen=True, eq=False)
class Trials:
    """Results of candidates, simplest first, on held-out rows.

    `scores` are by the metric of the choice, `plain` squared errors or shares that are correct;
    `said` and `spreads` hold predictions of all rows and standard deviations of some, by name, NaN
    where there is none; `weights` those of a blend.
    """

    candidates: Sequence[Candidate]
    scores: Scores
    plain: Scores
    said: dict[str, Array] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    spreads: dict[str, Array] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """Names of the candidates."""
        return [candidate.name for candidate in self.candidates]

    @property
    def means(self) -> Array:
        """Mean score over the tasks; minus infinity for what could not be fitted."""
        return over_tasks(self.scores)

    @property
    def chosen(self) -> Candidate:
        """The best model; of equal ones the simplest, so that a blend must beat every part."""
        return self.best_of("pooled", "baseline", "cross", "separate")

    @property
    def parts(self) -> dict[str, float]:
        """Weights of the models that make up the chosen one."""
        chosen = self.chosen.name
        return self.weights if chosen == "blend" else {chosen: 1.0}

    @property
    def listed_parts(self) -> list[dict[str, Any]]:
        """Names, labels and weights of these models, the heaviest first."""
        labels = {c.name: c.label for c in self.candidates}
        parts = sorted(self.parts.items(), key=lambda part: -part[1])
        return [{"name": n, "label": labels[n], "weight": weight} for n, weight in parts]

    @property
    def described(self) -> Candidate:
        """The chosen model if it is linear in the columns, else the best that is and shares."""
        return self.chosen if self.chosen.base == "linear" else self.best_of("cross", base="linear")

    @property
    def nested_score(self) -> float:
        """Score of the choice itself, made for every split on the others."""
        everyone = {"chosen": range(len(self.candidates))}
        return float(over_tasks(nested(self.scores, everyone))[0])

    def best_of(self, *sharing: str, base: str | None = None) -> Candidate:
        """Return the best candidate of some kinds, the simplest of equal ones."""
        own = [
            (mean, c)
            for mean, c in zip(self.means, self.candidates, strict=True)
            if c.sharing in sharing and base in (None, c.base)
        ]
        top = max(mean for mean, _ in own)
        if top == -np.inf:
            raise ValueError(
                "No model could be scored: every training part lacks something, such as a class. "
                "Hold out other parts, or fewer of them."
            )
        return next(c for mean, c in own if mean >= top - _ROUNDING * abs(top))


def over_tasks(scores: Scores) -> Array:
    """Mean over the tasks that all settings have a score of; minus infinity if one has none."""
    values = scores.by_task
    usable = np.isfinite(values).any(axis=1)
    common = np.isfinite(values[usable]).all(axis=0)
    means = values[:, common].mean(axis=1) if common.any() else np.full(len(values), -np.inf)
    return np.where(usable, means, -np.inf)


def paired(a: Array, b: Array) -> tuple[float, float]:
    """Mean difference over the tasks that have both scores, and its standard error."""
    ahead = (a - b)[np.isfinite(a) & np.isfinite(b)]
    if len(ahead) < 2:
        return float(ahead.sum()), 0.0
    return float(ahead.mean()), float(ahead.std(ddof=1) / len(ahead) ** 0.5)


class _Trial:
    """All candidates on all splits."""

    def __init__(self, spaces: Spaces, splits: Splits, metric: Metric, seed: int) -> None:
        rows = spaces.rows
        plain = METRICS["mse" if rows.classes is None else "accuracy"]
        self.spaces, self.splits, self.metrics = spaces, splits, (metric, plain)
        rng, room = np.random.default_rng(seed), _MOST_SPREADS // len(splits.parts)
        self.shown = [np.sort(rng.permutation(test)[:room]) for _, test in splits.parts]
        self.sums: dict[str, Statistics | None] = {}
        self.weights = np.zeros((len(splits.parts), rows.n_tasks))
        for weights, (_, test) in zip(self.weights, splits.parts, strict=True):
            np.add.at(weights, rows.codes[test], rows.given_weights[test])

    def of(self, candidate: Candidate) -> Iterator[tuple[Array, Array]]:
        """Predictions of all rows and standard deviations of some, after each split."""
        rows = self.spaces.rows
        shape = (len(rows.y),) if rows.classes is None else (len(rows.y), len(rows.classes))
        said, spread = np.full(shape, np.nan), np.full(len(rows.y), np.nan)
        estimator = candidate.estimator
        for s, (train, test) in enumerate(self.splits.parts):
            try:
                own = self.spaces.of(candidate.base, s)
                model = self._model(candidate, estimator, own, train, s)
            except ValueError:  # such as a training part with a single class
                yield said, spread
                continue
            if getattr(estimator, "covariance", None) == "auto":
                # Finding the structure takes most of the time: other splits have that of the first.
                estimator = clone(estimator).set_params(covariance=model.structure_)
            said[test] = told(model, own.take(test), rows.classes)[0]
            if rows.classes is None and len(some := self.shown[s]):
                spread[some] = told(model, own.take(some), None, spread=True)[1]
            yield said, spread

    def _model(
        self, candidate: Candidate, estimator: Any, rows: Rows, train: NDArray[np.intp], s: int
    ) -> Any:
        base = candidate.base
        if isinstance(estimator, CrossBayesianRidge):
            if base not in self.sums:
                fixed = base in ("linear", "splines")  # the same in all splits
                self.sums[base] = _sums(rows, self.splits) if fixed else None
            sums = self.sums[base]
            part = rows.take(train).sums() if sums is None else without(sums, s)
            model = clone(estimator).fit_statistics(part)
        else:
            model = fitted(estimator, rows.take(train))
        center = np.atleast_2d(model.center_coef_)
        if base in ("boosting", "both") and len(center) == 1 and center[0, -1] < 0:
            raise ValueError("Trees that count negatively are not to be trusted.")
        return model

    def tables(self, tried: Sequence[Candidate], scores: list[Array]) -> tuple[Scores, Scores]:
        """Scores of candidates by the metric of the choice, and by the plain one."""
        names = [candidate.name for candidate in tried]
        chosen_by, plain = (Scores(names, own, self.weights) for own in np.stack(scores, axis=1))
        return chosen_by, plain

    def scored(self, said: Array) -> Array:
        """Scores by both metrics, shape (2, n_splits, n_tasks)."""
        scores = np.full((2, *self.weights.shape), np.nan)
        for s, (_, test) in enumerate(self.splits.parts):
            part = self.spaces.rows.take(test)
            if len(test) and np.isfinite(said[test]).all():
                given = part.y, predicted(said[test], part), part.given_weights, part.codes
                for m, metric in enumerate(self.metrics):
                    scores[m, s] = metric.of_tasks(*given, part.n_tasks)[0]
        return scores


def run(
    candidates: Sequence[Candidate],
    spaces: Spaces,
    splits: Splits,
    metric: Metric,
    *,
    seed: int = 0,
    blend: bool = True,
    budget: float = np.inf,
    say: Callable[[str, float], object] = lambda *_: None,
) -> Trials:
    """Fit every candidate on the training part of every split, and score it on the other.

    The settings of a model come from the evidence of its training part alone. Models that are not
    linear are tried only if there is time for them in `budget` seconds.
    """
    trial = _Trial(spaces, splits, metric, seed)
    started, n_splits = time.perf_counter(), len(splits.parts)
    seconds: dict[str, float] = {}
    said: dict[str, Array] = {}
    spreads: dict[str, Array] = {}
    scores: list[Array] = []
    kept: list[Candidate] = []
    for m, candidate in enumerate(candidates):
        begun = time.perf_counter()
        for s, told_of in enumerate(trial.of(candidate)):
            say(f"Trying {candidate.label}", (m + (s + 1) / n_splits) / len(candidates))
            said[candidate.name], spreads[candidate.name] = told_of
            now = time.perf_counter()
            ends = now - started + (n_splits - s) * (now - begun) / (s + 1)
            if candidate.base != "linear" and ends > budget:
                break
        else:
            kept.append(candidate)
            seconds[candidate.name] = time.perf_counter() - begun
            scores.append(trial.scored(said[candidate.name]))
    skipped = [candidate.label for candidate in candidates if candidate not in kept]
    trials = Trials(kept, *trial.tables(kept, scores), said, seconds, spreads, {}, skipped)
    return _with_blend(trial, trials, metric, scores) if blend else trials


def _with_blend(trial: _Trial, trials: Trials, metric: Metric, scores: list[Array]) -> Trials:
    """Add the blend of all candidates, whose weights for a split come from the others."""
    rows, begun = trial.spaces.rows, time.perf_counter()
    known = np.zeros(len(rows.y), dtype=bool)
    known[np.concatenate([test for _, test in trial.splits.parts])] = True
    names = [name for name in trials.names if np.isfinite(trials.said[name][known]).all()]
    if len(rows.y) > _MOST_BLENDED or len(trial.splits.parts) < 2 or len(names) < 2:
        return trials
    everyone = np.stack([trials.said[name] for name in names])

    def weights(use: NDArray[np.bool_]) -> Array:
        return blend_weights(everyone[:, use], rows.take(np.flatnonzero(use)), metric.name)

    blended = np.full_like(everyone[0], np.nan)
    for _, test in trial.splits.parts:
        others = known.copy()
        others[test] = False
        if others.any():
            blended[test] = np.tensordot(weights(others), everyone[:, test], 1)
    final = {n: w for n, w in zip(names, weights(known).tolist(), strict=True) if w > 0}
    if len(final) < 2:
        return trials
    kinds = {c.sharing for c in trials.candidates if c.name in final}
    mixed: Sharing = "cross" if "cross" in kinds else "baseline"  # shares between its parts
    sharing = kinds.pop() if len(kinds) == 1 else mixed
    blend = Candidate("blend", f"blend of {len(final)} models", sharing, None, "blend")
    # The standard deviation of a mean is at most the mean of standard deviations.
    spread = sum(weight * trials.spreads[name] for name, weight in final.items())
    tried = [*trials.candidates, blend]
    by_metric, plain = trial.tables(tried, [*scores, trial.scored(blended)])
    return replace(
        trials,
        candidates=tried,
        scores=by_metric,
        plain=plain,
        said=trials.said | {"blend": blended},
        seconds=trials.seconds | {"blend": time.perf_counter() - begun},
        spreads=trials.spreads | {"blend": np.asarray(spread)},
        weights=final,
    )


def _sums(rows: Rows, splits: Splits) -> Statistics | None:
    """Sum rows by task and fold, where that is not too much."""
    n_folds, width = len(splits.parts), rows.X.shape[1] + 1
    if splits.folds is None or rows.n_tasks * n_folds * width**2 > _MOST_SUMS:
        return None
    return rows.sums(folds=splits.folds, n_folds=n_folds)
