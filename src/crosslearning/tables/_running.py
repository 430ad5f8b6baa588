"""Candidates tried on held-out rows, one after the other or in several processes."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone

from crosslearning.convex.statistics import Statistics
from crosslearning.evaluation.scores import Scores
from crosslearning.linear import CrossBayesianRidge
from crosslearning.tables._basis import BLOCKS
from crosslearning.tables._blending import blend_weights
from crosslearning.tables._spaces import Spaces
from crosslearning.tables.candidates import Candidate, Sharing
from crosslearning.tables.metrics import Metric, Said, plain_of
from crosslearning.tables.rows import Rows, bounded, fitted, told, without
from crosslearning.tables.splits import Splits
from crosslearning.tables.trials import Trials

Array = NDArray[np.float64]
_MOST_SUMS = 5e7  # numbers in the sums of tasks and folds; beyond, rows are summed again
_MOST_SPREADS = 20_000  # rows with a predicted standard deviation
_MOST_BLENDED = 200_000  # rows


class Trial:
    """All candidates on all splits."""

    def __init__(self, spaces: Spaces, splits: Splits, metric: Metric, seed: int) -> None:
        rows = spaces.rows
        plain = plain_of(metric, rows.classes)
        self.spaces, self.splits, self.metrics = spaces, splits, (metric, plain)
        rng, room = np.random.default_rng(seed), _MOST_SPREADS // len(splits.parts)
        self.shown = [np.sort(rng.permutation(test)[:room]) for _, test in splits.parts]
        self.sums: dict[str, Statistics | None] = {}
        self.weights = np.zeros((len(splits.parts), rows.n_tasks))
        for weights, (_, test) in zip(self.weights, splits.parts, strict=True):
            np.add.at(weights, rows.codes[test], rows.given_weights[test])

    def grow(self, candidates: Sequence[Candidate], deadline: float) -> None:
        """Grow the trees of all splits, as far as there is time, before processes need them."""
        on_trees = [c.base for c in candidates if "stacked" in BLOCKS.get(c.base, ())]
        for s in range(len(self.splits.parts)):
            if on_trees and time.monotonic() < deadline:
                with suppress(ValueError):  # such as a class that a part lacks
                    self.spaces.of(on_trees[0], s)

    def tried(
        self, candidate: Candidate, deadline: float, say: Callable[[float], object]
    ) -> tuple[Array, Array, float] | None:
        """Predictions, standard deviations and seconds; None if there is no time for them."""
        begun, n_splits = time.monotonic(), len(self.splits.parts)
        found = self.of(candidate)
        for s in range(n_splits):
            said, spread = next(found)
            seconds = time.monotonic() - begun
            ends = begun + seconds + (n_splits - s) * seconds / (s + 1)
            if candidate.base != "linear" and ends > deadline:
                return None
            say((s + 1) / n_splits)
        return said, spread, seconds

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
        sums = self._sums_of(base, rows) if isinstance(estimator, CrossBayesianRidge) else None
        if sums is None:
            model = fitted(estimator, rows.take(train))
        else:
            model = bounded(clone(estimator).fit_statistics(without(sums, s)), rows.y[train])
        center = np.atleast_2d(model.center_coef_)
        if "stacked" in BLOCKS.get(base, ()) and len(center) == 1 and center[0, -1] < 0:
            raise ValueError("Trees that count negatively are not to be trusted.")
        return model

    def _sums_of(self, base: str, rows: Rows) -> Statistics | None:
        """Sum rows by task and fold, if a base is the same in all splits and it is not too much."""
        if base not in self.sums:
            n_folds, width = len(self.splits.parts), rows.X.shape[1] + 1
            much = self.splits.folds is None or rows.n_tasks * n_folds * width**2 > _MOST_SUMS
            given = {"folds": self.splits.folds, "n_folds": n_folds}
            fixed = not {"means", "stacked"} & set(BLOCKS.get(base, ()))
            self.sums[base] = rows.sums(**given) if fixed and not much else None
        return self.sums[base]

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
                given = part.y, Said.of(said[test], part.classes), part.given_weights, part.codes
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
    jobs: int = 1,
    say: Callable[[str, float], object] = lambda *_: None,
) -> Trials:
    """Fit every candidate on the training part of every split, and score it on the other.

    The settings of a model come from the evidence of its training part alone. Models that are not
    linear are tried only if there is time for them in `budget` seconds. `jobs` is the number of
    processes.
    """
    trial, deadline = Trial(spaces, splits, metric, seed), time.monotonic() + budget
    found = _in_turn(trial, candidates, deadline, say)
    if jobs != 1:
        say("Trying models", 0.0)
        trial.grow(candidates, deadline)
        found = Parallel(n_jobs=jobs, return_as="generator")(
            delayed(trial.tried)(candidate, deadline, _silent) for candidate in candidates
        )
    timely = {c: one for c, one in zip(candidates, found, strict=True) if one is not None}
    skipped = [candidate.label for candidate in candidates if candidate not in timely]
    tried = _comparable(timely)
    failed = [candidate.label for candidate in timely if candidate not in tried]
    said, spreads, seconds = ({c.name: one[part] for c, one in tried.items()} for part in range(3))
    scores = [trial.scored(own) for own in said.values()]
    by_metric, plain = trial.tables(list(tried), scores)
    trials = Trials(list(tried), by_metric, plain, said, seconds, spreads, {}, skipped, failed)
    return _with_blend(trial, trials, metric, scores) if blend else trials


def _in_turn(
    trial: Trial, candidates: Sequence[Candidate], deadline: float, say: Callable[..., object]
) -> Iterator[Any]:
    for m, candidate in enumerate(candidates):

        def report(share: float, m: int = m, label: str = candidate.label) -> None:
            say(f"Trying {label}", (m + share) / len(candidates))

        yield trial.tried(candidate, deadline, report)


def _comparable(tried: dict[Candidate, Any]) -> dict[Candidate, Any]:
    """Leave out models on other bases that failed on rows which a linear model predicts."""
    told = {c: np.isfinite(one[0]) for c, one in tried.items()}
    linear = np.any([known for c, known in told.items() if c.base == "linear"], axis=0)
    return {c: one for c, one in tried.items() if c.base == "linear" or told[c][linear].all()}


def _silent(share: float) -> None:
    """Say nothing, in another process."""


def _with_blend(trial: Trial, trials: Trials, metric: Metric, scores: list[Array]) -> Trials:
    """Add the blend of all candidates, whose weights for a split come from the others."""
    rows, begun = trial.spaces.rows, time.perf_counter()
    known = np.zeros(len(rows.y), dtype=bool)
    known[np.concatenate([test for _, test in trial.splits.parts])] = True
    names = [name for name in trials.names if np.isfinite(trials.said[name][known]).all()]
    if len(rows.y) > _MOST_BLENDED or len(trial.splits.parts) < 2 or len(names) < 2:
        return trials
    everyone = np.stack([trials.said[name] for name in names])
    cross = np.array([c.sharing == "cross" for c in trials.candidates if c.name in names])

    def weights(use: NDArray[np.bool_]) -> Array:
        return blend_weights(everyone[:, use], rows.take(np.flatnonzero(use)), metric.name, cross)

    blended = np.full_like(everyone[0], np.nan)
    for _, test in trial.splits.parts:
        others = known.copy()
        others[test] = False
        if others.any():
            blended[test] = np.tensordot(weights(others), everyone[:, test], 1)
    final = {n: w for n, w in zip(names, weights(known).tolist(), strict=True) if w > 0}
    if len(final) < 2:
        return replace(trials, weights=final)
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
