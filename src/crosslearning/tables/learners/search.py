"""The search among candidates: out-of-fold predictions of each, and a blend; or scores by sums."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.stats import kurtosis
from sklearn.base import clone

from crosslearning.convex.deadline import OutOfTimeError, deadline
from crosslearning.convex.families import REGISTRY
from crosslearning.convex.predict import blended
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.evaluation.blending import blend_weights
from crosslearning.evaluation.metrics import Metric, Predictions, plain_of
from crosslearning.evaluation.numbers import joined
from crosslearning.evaluation.scores import Scores, mean, over_all
from crosslearning.extras import require
from crosslearning.linear import CrossBayesianRidge, SplineFeatures
from crosslearning.tables.forecast import BLOCKS, Basis, TaskMeans, forecast, probabilities_of
from crosslearning.tables.learners import LEARNERS
from crosslearning.tables.learners.candidates import (
    Candidate,
    Choice,
    Trials,
    best_choice,
    choices,
)
from crosslearning.tables.learners.learner import Learner
from crosslearning.tables.rows import NotFittedError, Rows, bounded, fitted, predict_rows
from crosslearning.tasks.folds import Splits

Array = NDArray[np.float64]
OfRows = list[tuple[Rows, Array, Array]]  # with means and standard deviations
_WIDEST = 100  # features, beyond which curves are not tried by default
_COSTLY = 2e7  # tasks × coefficients³, beyond which a base is not tried if fits are iterated
_WORTH = 2.0  # gain in log evidence for which means of tasks are tried
_NORMAL = 0.0  # excess kurtosis of held-out errors, beyond which robust models are tried
_CONSTANT = 1e-9  # share of the variance of a column that is within tasks, or between them
_FEWEST_TASKS = 2_000  # to compare models by sums,
_MOST_NUMBERS = 10**7  # in which there are at most so many numbers, unless tasks are the fewest
_LEARNED = 2**10  # tasks that are enough for variances to compare models by
_MOST_SUMS = 5e7  # numbers in the sums of tasks and splits; beyond, rows are summed again


class Bases:
    """The features that can be tried on a table, and its rows in them."""

    def __init__(self, rows: Rows, splits: Splits, base: str, family: str, seed: int) -> None:
        self.rows, self.splits, self.family = rows, splits, family
        self.n_scores = 1 if family == "ordinal" else rows.n_scores
        self.blocks: dict[str, NDArray[np.str_]] = {}  # of the columns of each base
        self.notes: list[str] = []
        self.learners: dict[str, Learner] = {}  # with fits of their own
        n, p = rows.X.shape
        kind = "regression" if rows.classes is None else "classification"
        wanted = {
            name: learner
            for name, learner in LEARNERS.items()
            if base in learner.bases and kind in learner.kinds and family != "quantile"
        }
        for package in {learner.package: None for learner in wanted.values()}:
            those = {name: one for name, one in wanted.items() if one.package == package}
            try:
                require("Trying them", package)
            except (ImportError, OSError) as reason:  # such as a missing OpenMP library
                words = joined([learner.words for learner in those.values()])
                self.notes.append(f"{words} were not tried: {reason}")
            else:
                self.learners |= {k: one(rows, splits, family, seed) for k, one in those.items()}
        if base == "auto" and p > _WIDEST:
            self.notes.append(f"curves were not tried, since there are {p} features")
        elif base in ("auto", "splines"):
            splines = SplineFeatures().fit(rows.X, sample_weight=rows.weights)
            self.basis = Basis(splines.mean_, splines.scale_, splines.curves_)
            self._columns = self.basis.apply(rows.X, rows.codes)
            shares = self._means(np.arange(n)).shares
            self._averaged = np.flatnonzero(np.minimum(shares, 1.0 - shares) > _CONSTANT)
            self.blocks = self._possible(base)

    def _possible(self, base: str) -> dict[str, NDArray[np.str_]]:
        """Blocks of the columns of each base that can be tried."""
        rows, n_means = self.rows, 0 if self.family == "quantile" else len(self._averaged)
        columns = np.append(self.basis.blocks, np.repeat("means", n_means))
        normal = rows.classes is None and self.family == "gaussian"
        possible = {}
        for name, blocks in BLOCKS.items():
            used = columns[np.isin(columns, blocks)]
            costly = rows.n_tasks * (self.n_scores * len(used)) ** 3 > _COSTLY
            chosen = normal or not costly if base == "auto" else "curved" in blocks
            if chosen and set(used) == set(blocks):
                possible[name] = used
        return possible

    def of(self, base: str, split: int | None) -> Rows:
        """Rows in a base; means of a split are those of its training rows."""
        if base == "linear":
            return self.rows
        parts = [self._columns[:, np.isin(self.basis.blocks, BLOCKS[base])]]
        if "means" in BLOCKS[base]:
            train = np.arange(len(self.rows.y)) if split is None else self.splits.parts[split][0]
            means = self._means(train).take(self._averaged)
            parts.append(means.apply(self._columns, self.rows.codes))
        return replace(self.rows, X=np.hstack(parts))

    def _means(self, train: NDArray[np.intp]) -> TaskMeans:
        """Take the means of all columns over some of the rows."""
        rows = self.rows.take(train)
        columns = self._columns[train, : rows.X.shape[1]]
        return TaskMeans.of(columns, rows.codes, rows.row_weights, rows.n_tasks)

    def final(self, bases: Iterable[str]) -> Basis:
        """Return the basis for new rows, with what some bases need."""
        if not any("means" in BLOCKS[base] for base in bases):
            return self.basis
        means = self._means(np.arange(len(self.rows.y))).take(self._averaged)
        return replace(self.basis, means=means)

    def means_help(self, estimator: Any) -> bool:
        """Whether means of tasks as features raise the log evidence, or reduce the noise."""
        base = "means" if "means" in self.blocks else "splines-means"
        rows, blocks = self.of(base, None), self.blocks[base]

        def at_levels(kept: NDArray[np.bool_]) -> Any:
            simple = {"covariance": "levels", "epsilon": np.inf, "blocks": blocks[kept]}
            model = clone(estimator).set_params(**simple)
            return fitted(model, replace(rows, X=rows.X[:, kept]))

        full, plain = at_levels(blocks != ""), at_levels(blocks != "means")
        if rows.classes is None and REGISTRY[self.family].quasi:  # without evidence to compare
            return bool(len(rows.y) * np.log(plain.noise_sd_ / full.noise_sd_) > _WORTH)
        return bool(full.log_evidence_ - plain.log_evidence_ > _WORTH)


class FoldPredictions(NamedTuple):
    """Out-of-fold predictions of all rows, their standard deviations or NaN, and seconds."""

    predictions: Array
    sds: Array
    seconds: float


class CrossValidation:
    """Fits candidates on the training part of every split, and predicts the other."""

    def __init__(self, bases: Bases) -> None:
        self.bases, self.splits = bases, bases.splits
        self.sums: dict[tuple[str, int], Statistics] = {}

    def within(self, candidate: Candidate, moment: float) -> FoldPredictions | str | None:
        """Try a candidate; or why it failed; or None if there is no time for it until a moment."""
        begun, n_splits, rows = time.monotonic(), len(self.splits.parts), self.bases.rows
        predictions, sds = rows.unpredicted, np.full(len(rows.y), np.nan)
        steps = self._learned if candidate.estimator is None else self._fitted
        try:
            with deadline(moment):
                for s, _ in enumerate(steps(candidate, predictions, sds), start=1):
                    # All splits, and all rows.
                    if begun + (time.monotonic() - begun) * (n_splits + 1) / s > moment:
                        return None
        except OutOfTimeError:
            return None
        except NotFittedError as reason:
            return str(reason)
        except np.linalg.LinAlgError as reason:  # as with weights of very different sizes
            return f"its equations cannot be solved ({reason})"
        return FoldPredictions(predictions, sds, time.monotonic() - begun)

    def _fitted(self, candidate: Candidate, predictions: Array, sds: Array) -> Iterator[None]:
        """Fill in predictions of a linear model, split by split."""
        rows = self.bases.rows
        for s, (train, test) in enumerate(self.splits.parts):
            part = rows.take(train)
            if part.classes is not None and len(np.unique(part.counted)) == 1:
                predictions[test] = part.frequencies  # which no model could be learned from
                yield
                continue
            based = self.bases.of(candidate.base, s)
            model = self._model(candidate, based, train, s)
            if getattr(candidate.estimator, "covariance", None) == "auto":
                # Finding the structure takes most of the time: it is that of the first split.
                fixed = clone(candidate.estimator).set_params(covariance=model.structure_)
                candidate = replace(candidate, estimator=fixed)
            predictions[test], sds[test] = predict_rows(model, based.take(test))
            if part.classes is not None and len(model.classes_) < len(part.classes):
                predictions[test] = probabilities_of(predictions[test], part.smallest)
            if not np.isfinite(predictions[test]).all():
                raise NotFittedError("its predictions are not finite")
            yield

    def _learned(self, candidate: Candidate, predictions: Array, sds: Array) -> Iterator[None]:
        """Fill in predictions of a learner with fits of its own, perhaps all at last."""
        learner, rows = self.bases.learners[candidate.base], self.bases.rows
        weights = rows.row_weights
        for parts in learner.held_out(with_task=candidate.end == "cross"):
            for (_, test), part in zip(self.splits.parts, parts, strict=False):
                predictions[test] = part
                if predictions.ndim == 1:
                    sds[test] = np.sqrt(mean((part - rows.y[test]) ** 2, weights[test], axis=0))
            yield

    def _model(self, candidate: Candidate, rows: Rows, train: NDArray[np.intp], s: int) -> Any:
        """Fit a linear model on the training part of a split, whose sums ends of a base share."""
        part, sums, key = rows.take(train), None, (candidate.base, s)
        if isinstance(candidate.estimator, CrossBayesianRidge) and not candidate.nested:
            sums = self.sums.get(key) or part.sums()
            if len(self.splits.parts) * sums.cells.scatters.size <= _MOST_SUMS:
                self.sums[key] = sums
        return fitted(candidate.estimator, part, nested=candidate.nested, sums=sums)


@dataclass(eq=False)
class CandidateSearch:
    """Tries candidates until a moment, in some processes, and chooses the best one or a blend."""

    bases: Bases
    metric: Metric
    blend: bool = True
    moment: float = np.inf
    jobs: int = 1
    progress: Callable[[str, float], object] = lambda *_: None

    def __post_init__(self) -> None:
        self.validation, self.rows = CrossValidation(self.bases), self.bases.rows
        self.parts = self.bases.splits.parts
        self.metrics = self.metric, plain_of(self.metric, self.rows.classes)
        self.outcomes: dict[Candidate, FoldPredictions] = {}
        self.skipped: list[Candidate] = []
        self.failed: dict[str, str] = {}

    @property
    def _latest(self) -> float:
        """When to stop, so that there is time to fit all rows as candidates so far were fitted."""
        return self.moment - sum(one.seconds for one in self.outcomes.values()) / len(self.parts)

    def first(self, candidate: Candidate) -> None:
        """Try a candidate whatever time it takes."""
        self.progress(f"Trying {candidate.label}", 0.0)
        outcome = self.validation.within(candidate, np.inf)
        if not isinstance(outcome, FoldPredictions):
            advice = "Leave out columns, or choose another family."
            raise ValueError(f"No model can be fitted to these rows: {outcome}. {advice}")
        self.outcomes[candidate] = outcome

    def more(self, candidates: Sequence[Candidate], share: tuple[float, float]) -> None:
        """Try candidates as far as there is time; `share` is the part of all work that they are."""
        work = (delayed(self.validation.within)(one, self._latest) for one in candidates)
        outcomes = Parallel(n_jobs=self.jobs, return_as="generator")(work)
        for done, candidate in enumerate(candidates):
            part = done / len(candidates)
            self.progress(f"Trying {candidate.label}", share[0] + (share[1] - share[0]) * part)
            outcome = next(outcomes)
            if outcome is None:
                self.skipped.append(candidate)
            elif isinstance(outcome, str):
                self.failed[candidate.label] = outcome
            else:
                self.outcomes[candidate] = outcome

    @property
    def heavy_tails(self) -> bool:
        """Whether errors have heavier tails than normal ones, for which robust models are."""
        linear = [one.predictions for c, one in self.outcomes.items() if c.base == "linear"]
        scored = np.isfinite(linear[0]) & (self.rows.row_weights > 0)
        errors = [(predictions - self.rows.y)[scored] for predictions in linear]
        return bool(kurtosis(min(errors, key=np.linalg.norm)) > _NORMAL)

    def worth(self, candidates: Sequence[Candidate], helps: Callable[[Any], bool]) -> bool:
        """Whether to try candidates, by a test of an estimator for which there may be no time."""
        try:
            with deadline(self._latest):
                return helps(candidates[0].estimator)
        except OutOfTimeError:
            self.skipped += candidates
        except NotFittedError as reason:
            self.failed |= {candidate.label: str(reason) for candidate in candidates}
        return False

    def finish(self) -> Trials:
        """Choose among the candidates, and among those at each end."""
        tried = self._comparable()
        scores = {c: self._scores(one.predictions) for c, one in tried.items()}

        def table(some: Iterable[Candidate], metric: int) -> Scores:
            values = np.stack([scores[c][metric] for c in some])
            return Scores([c.name for c in some], values, self._weights)

        def choice(some: Sequence[Candidate]) -> Choice:
            blend = self._blend({c: tried[c].predictions for c in some}) if self.blend else None
            return best_choice(some, table(some, 0)) if blend is None else blend

        made = choices(list(tried), choice)
        if made["all"].blends:
            blend, one = _blend_of(made["all"], tried)
            tried[blend], scores[blend] = one, self._scores(one.predictions)
        return Trials(
            list(tried),
            table(tried, 0),
            table(tried, 1),
            made,
            baseline=self._baseline(),
            predictions={c.name: one.predictions for c, one in tried.items()},
            seconds={c.name: one.seconds for c, one in tried.items()},
            sds={c.name: one.sds for c, one in tried.items()},
            skipped=[candidate.label for candidate in self.skipped],
            failed=self.failed,
        )

    def _comparable(self) -> dict[Candidate, FoldPredictions]:
        """Leave out learners, but for linear ones, that lack an end that others are compared at."""
        linear = {c.learner for c in self.outcomes if c.base == "linear"}
        pooled, cross = (
            {c.learner for c in self.outcomes if c.end == end} for end in ("pooled", "cross")
        )
        whole = linear | (pooled & cross if cross else pooled)
        lacking = [c for c in self.outcomes if c.learner not in whole]
        self.failed |= {c.label: "other models of their kind are missing" for c in lacking}
        return {c: self._as_stored(c) for c in self.outcomes if c.learner in whole}

    def _as_stored(self, candidate: Candidate) -> FoldPredictions:
        """Predict new tasks as stored models do: other learners by those without the task."""
        outcome, new = self.outcomes[candidate], self._of_new_tasks
        if candidate.estimator is not None or candidate.end == "pooled" or not new.any():
            return outcome
        (pooled,) = (
            one
            for c, one in self.outcomes.items()
            if c.learner == candidate.learner and c.end == "pooled"
        )
        at = new[:, None] if outcome.predictions.ndim > 1 else new
        predictions = np.where(at, pooled.predictions, outcome.predictions)
        return outcome._replace(predictions=predictions)

    @cached_property
    def _of_new_tasks(self) -> NDArray[np.bool_]:
        """Whether the task of a row has no rows in the training part of its split."""
        new = np.zeros(len(self.rows.y), dtype=bool)
        for train, test in self.parts:
            new[test] = ~np.isin(self.rows.codes[test], self.rows.codes[train])
        return new

    @property
    def _weights(self) -> Array:
        """Weight of the test rows of each split and task."""
        codes, weights, n_tasks = self.rows.codes, self.rows.row_weights, self.rows.n_tasks
        return np.stack([np.bincount(codes[t], weights[t], n_tasks) for _, t in self.parts])

    def _scores(self, predictions: Array) -> Array:
        """Scores by both metrics, shape (2, n_splits, n_tasks)."""
        scores = np.full((2, len(self.parts), self.rows.n_tasks), np.nan)
        for s, (_, test) in enumerate(self.parts):
            part = self.rows.take(test)
            if len(test) and np.isfinite(predictions[test]).all():
                predicted = Predictions.of(predictions[test], part.classes)
                scored = part.y, predicted, part.row_weights, part.codes, part.n_tasks
                scores[:, s] = [metric.of_tasks(*scored)[0] for metric in self.metrics]
        return scores

    def _baseline(self) -> float:
        """Score the mean, quantile or class frequencies of training rows."""
        rows, level, predictions = self.rows, self.metrics[0].quantile, self.rows.unpredicted
        for train, test in self.parts:
            part = rows.take(train)
            y, weights = part.counted, part.row_weights[part.row_weights > 0]
            if level is not None and rows.weights is None:
                predictions[test] = np.quantile(y, level)
            elif level is not None:
                predictions[test] = np.quantile(y, level, weights=weights, method="inverted_cdf")
            elif rows.classes is None:
                predictions[test] = np.average(y, weights=weights)
            else:
                predictions[test] = part.frequencies
        return over_all(self._scores(predictions)[0], self._weights)

    def _blend(self, predictions: dict[Candidate, Array]) -> Choice | None:
        """Blend predictions, if there are several; weights for a split come from the others."""
        scored = np.zeros(len(self.rows.y), dtype=bool)
        scored[np.concatenate([test for _, test in self.parts])] = True
        usable = {c: one for c, one in predictions.items() if np.isfinite(one[scored]).all()}
        if len(usable) < 2 or len(self.parts) < 2:
            return None
        # Cross-learned models contain pooled and separate ones as special cases, between which the
        # evidence of all training rows has chosen.
        cross = np.array([c.end == "cross" for c in usable])
        everyone = np.stack(list(usable.values()))

        frequencies = None  # where models learned, of each row
        if self.rows.classes is not None:
            frequencies = self.rows.unpredicted
            for train, test in self.parts:
                frequencies[test] = self.rows.take(train).frequencies

        def weights(use: NDArray[np.bool_]) -> Array:
            rows = self.rows.take(np.flatnonzero(use))
            return blend_weights(
                everyone[:, use],
                rows.y if rows.classes is None else np.searchsorted(rows.classes, rows.y),
                rows.codes,
                rows.row_weights,
                metric=self.metrics[0].name,
                expected=cross,
                frequencies=None if frequencies is None else frequencies[use],
            )

        result = np.full_like(everyone[0], np.nan)
        for _, test in self.parts:
            others = scored.copy()
            others[test] = False
            if others.any():
                where = None if frequencies is None else frequencies[test]
                result[test] = blended(weights(others), everyone[:, test], where)
        final = zip(usable, weights(scored).tolist(), strict=True)
        kept = {c.name: weight for c, weight in final if weight > 0}
        return Choice(kept, self._scores(result)[0], result)


def _blend_of(
    choice: Choice, tried: dict[Candidate, FoldPredictions]
) -> tuple[Candidate, FoldPredictions]:
    """Return the blend that was chosen as a candidate."""
    assert choice.predictions is not None
    parts = {c: one for c, one in tried.items() if c.name in choice.weights}
    first, *others = {candidate.end for candidate in parts}
    end = first if not others else "cross" if "cross" in (first, *others) else "levels"
    # The standard deviation of a mean is at most the mean of standard deviations.
    sds = sum((choice.weights[c.name] * one.sds for c, one in parts.items()), np.zeros(1))
    several = f"blend of {len(parts)} models"
    label = several if len(parts) > 1 else f"{next(iter(parts)).label}, calibrated"
    blend = Candidate("blend", label, end, None, "blend")
    return blend, FoldPredictions(choice.predictions, sds, 0.0)


def compare_by_sums(
    candidates: Sequence[Candidate],
    sums: Statistics,
    kept: Rows,
    ends: Array,
    parts: list[tuple[list[int], int]],
    most_tasks: int,
    say: Callable[[str], object],
    moment: float = np.inf,
) -> tuple[Trials, dict[str, OfRows], NDArray[np.intp]]:
    """Fit candidates on all folds of a part but one, and score them on that by squared errors.

    The first is tried in any case, others while all parts can end by a moment. Of very many tasks,
    some decide. Returns trials; kept rows, with means and standard deviations; the tasks that did.
    """
    most = np.clip(_MOST_NUMBERS // sums.cells.scatters[:1].size, _FEWEST_TASKS, most_tasks)
    tasks = np.arange(0, sums.n_tasks, -(-sums.n_tasks // most))
    some, levels = sums.take(tasks), kept.levels.numbers.iloc[tasks] if kept.levels else None
    sample, folds = _of_tasks(kept, tasks)
    values = np.full((len(candidates), len(parts), len(tasks)), np.nan)
    guesses, weights = np.empty((2, *values.shape[1:]))
    predictions: dict[str, OfRows] = {candidate.name: [] for candidate in candidates}
    seconds, tried = dict.fromkeys(predictions, 0.0), candidates
    for s, (learned, tested) in enumerate(parts):
        # A difference would leave rounding errors in columns of zeros.
        train, test = reduce(add, [some.fold(k) for k in learned]), some.cells[:, tested]
        weights[s], nothing = test.weights, np.zeros((len(tasks), sums.n_features))
        guesses[s] = -test.squared_errors(nothing, np.full(len(tasks), train.pooled_means()[-1]))
        part = sample.take(np.flatnonzero(folds == tested))
        for m, c in enumerate(tried):
            if m and not s and time.monotonic() + sum(seconds.values()) * (len(parts) - 1) > moment:
                tried = candidates[:m]
                break
            say(f"Trying {c.label}, part {s + 1} of {len(parts)}")
            started, groups = time.perf_counter(), levels if c.nested else None
            model = clone(c.estimator).fit_statistics(train, tasks=groups, learn_from=_LEARNED)
            values[m, s] = -test.squared_errors(model.coef_, model.intercept_)
            state = {"fitted": vars(bounded(model, ends)), "parameters": model.get_params()}
            if len(part.y):
                predictions[c.name].append((part, *forecast(state, part.X, part.codes)))
            seconds[c.name] += time.perf_counter() - started
    scores = Scores([c.name for c in tried], values[: len(tried)], weights)
    made = choices(tried, lambda some: best_choice(some, scores.of([c.name for c in some])))
    baseline, late = over_all(guesses, weights), [c.label for c in candidates[len(tried) :]]
    trials = Trials(tried, scores, scores, made, baseline, seconds=seconds, skipped=late)
    return trials, predictions, tasks


def _of_tasks(kept: Rows, tasks: NDArray[np.intp]) -> tuple[Rows, NDArray[np.intp]]:
    """Rows of some tasks, under the numbers that these have among themselves; and their folds."""
    some = kept.take(np.isin(kept.codes, tasks))
    codes = np.searchsorted(tasks, some.codes)
    return Rows(some.X, some.y, codes, len(tasks), some.weights), np.asarray(some.folds)
