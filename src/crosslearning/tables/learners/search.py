"""The search among candidates: out-of-fold predictions of each, until the budget ends."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone

from crosslearning.convex.deadline import OutOfTimeError, deadline
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.evaluation.scores import Scores
from crosslearning.linear import CrossBayesianRidge
from crosslearning.tables.learners.candidates import Candidate, End
from crosslearning.tables.learners.features import BLOCKS
from crosslearning.tables.learners.selection import Selection, choices
from crosslearning.tables.learners.spaces import Spaces
from crosslearning.tables.learners.trials import Choice, Trials
from crosslearning.tables.metrics import Metric, plain_of
from crosslearning.tables.rows import (
    NotFittedError,
    Rows,
    Splits,
    bounded,
    deviations_of_rows,
    fitted,
    predict_rows,
    without,
)

Array = NDArray[np.float64]
_MOST_SUMS = 5e7  # numbers in the sums of tasks and folds; beyond, rows are summed again
_MOST_SDS = 20_000  # rows with a predicted standard deviation


class FoldPredictions(NamedTuple):
    """Out-of-fold predictions of all rows and standard deviations of some (else NaN); seconds."""

    predictions: Array
    sds: Array
    seconds: float


class CrossValidation:
    """Fits candidates on the training part of every split, and predicts the other."""

    def __init__(self, spaces: Spaces, splits: Splits, seed: int) -> None:
        self.spaces, self.splits = spaces, splits
        rng, room = np.random.default_rng(seed), _MOST_SDS // len(splits.parts)
        self.with_sds = [np.sort(rng.permutation(test)[:room]) for _, test in splits.parts]
        self.sums: dict[str, Statistics | None] = {}

    def within(
        self,
        candidate: Candidate,
        moment: float,
        report: Callable[[float], object] = lambda _: None,
    ) -> FoldPredictions | str | None:
        """Try a candidate; or why it failed; or None if there is no time for it until a moment."""
        begun, n_splits = time.monotonic(), len(self.splits.parts)
        steps = self.of(candidate)
        try:
            with deadline(moment):
                for s in range(n_splits):
                    predictions, sds = next(steps)
                    seconds = time.monotonic() - begun
                    # The remaining splits, and all rows.
                    if begun + seconds + (n_splits - s) * seconds / (s + 1) > moment:
                        return None
                    report((s + 1) / n_splits)
        except OutOfTimeError:
            return None
        except NotFittedError as reason:
            return str(reason)
        return FoldPredictions(predictions, sds, seconds)

    def of(self, candidate: Candidate) -> Iterator[tuple[Array, Array]]:
        """Predictions of all rows and standard deviations of some, after each split."""
        rows = self.spaces.rows
        shape = (len(rows.y),) if rows.classes is None else (len(rows.y), len(rows.classes))
        predictions, sds = np.full(shape, np.nan), np.full(len(rows.y), np.nan)
        estimator = candidate.estimator
        if estimator is None:
            yield from self._by_trees(candidate, predictions, sds)
            return
        for s, (train, test) in enumerate(self.splits.parts):
            if rows.classes is not None and len(np.unique(rows.y[train])) < 2:
                yield predictions, sds  # a training part with a single class
                continue
            based = self.spaces.of(candidate.base, s)
            model = self._model(candidate, estimator, based, train, s)
            if getattr(estimator, "covariance", None) == "auto":
                # Finding the structure takes most of the time: other splits have that of the first.
                estimator = clone(estimator).set_params(covariance=model.structure_)
            predictions[test] = predict_rows(model, based.take(test))
            if not np.isfinite(predictions[test]).all():
                raise NotFittedError("its predictions are not finite")
            if rows.classes is None and len(some := self.with_sds[s]):
                sds[some] = deviations_of_rows(model, based.take(some))
            yield predictions, sds

    def _by_trees(
        self, candidate: Candidate, predictions: Array, sds: Array
    ) -> Iterator[tuple[Array, Array]]:
        parts = self.splits.parts
        for done in self.spaces.boosting.held_out(with_task=candidate.end == "cross"):
            if done:
                for (_, test), part, some in zip(parts, done, self.with_sds, strict=True):
                    predictions[test] = part
                    if predictions.ndim == 1:
                        sds[some] = np.sqrt(np.mean((part - self.spaces.rows.y[test]) ** 2))
            yield predictions, sds

    def _model(
        self, candidate: Candidate, estimator: Any, rows: Rows, train: NDArray[np.intp], s: int
    ) -> Any:
        by_sums = isinstance(estimator, CrossBayesianRidge) and not candidate.nested
        sums = self._sums_of(candidate.base, rows) if by_sums else None
        if sums is None:
            model = fitted(estimator, rows.take(train), nested=candidate.nested)
        else:
            model = clone(estimator).fit_statistics(without(sums, s))
            bounded(model, rows.take(train).counted)
        return model

    def _sums_of(self, base: str, rows: Rows) -> Statistics | None:
        """Sum rows by task and fold, if a base is the same in all splits and it is not too much."""
        folds = self.splits.folds
        if base not in self.sums:
            n_folds = 0 if folds is None else int(folds.max()) + 1
            size = rows.n_tasks * n_folds * (rows.X.shape[1] + 1) ** 2
            fixed = "means" not in BLOCKS.get(base, ())
            possible = folds is not None and fixed and size <= _MOST_SUMS
            self.sums[base] = rows.sums(folds=folds, n_folds=n_folds) if possible else None
        return self.sums[base]


class CandidateSearch:
    """Tries candidates until a moment, in a number of processes, and chooses among them."""

    def __init__(
        self,
        spaces: Spaces,
        splits: Splits,
        metric: Metric,
        *,
        seed: int = 0,
        blend: bool = True,
        moment: float = np.inf,
        jobs: int = 1,
        progress: Callable[[str, float], object] = lambda *_: None,
    ) -> None:
        self.validation = CrossValidation(spaces, splits, seed)
        self.metrics, self.blend = (metric, plain_of(metric, spaces.rows.classes)), blend
        self.begun, self.moment, self.jobs, self.progress = time.monotonic(), moment, jobs, progress
        self.outcomes: dict[Candidate, FoldPredictions] = {}
        self.skipped: list[Candidate] = []
        self.failed: dict[str, str] = {}
        self.notes: list[str] = []

    @property
    def _latest(self) -> float:
        """When to stop, so that there is time to fit all rows as candidates so far were fitted."""
        n_splits = len(self.splits.parts)
        return self.moment - sum(one.seconds / n_splits for one in self.outcomes.values())

    @property
    def splits(self) -> Splits:
        """The splits that candidates are tried on."""
        return self.validation.splits

    def first(self, candidate: Candidate) -> None:
        """Try a candidate whatever it takes, but on fewer splits if all would take too long."""
        self.progress(f"Trying {candidate.label}", 0.0)
        steps = self.validation.of(candidate)
        try:
            predictions, sds = next(steps)  # which later steps fill in
        except NotFittedError as reason:
            raise ValueError(f"No model can be fitted to these rows: {reason}.") from reason
        # As many as there is time for, and one more fit, of all rows.
        affordable = (self.moment - self.begun) / (time.monotonic() - self.begun) - 1.0
        n_splits = int(np.clip(affordable, 1, len(self.splits.parts)))
        for _ in range(1, n_splits):
            next(steps)
        if n_splits < len(self.splits.parts):
            some = f"{n_splits} of {len(self.splits.parts)} parts of the rows"
            self.notes.append(f"models were compared on {some}, since fits take long")
        self.validation.splits = replace(self.splits, parts=self.splits.parts[:n_splits])
        self.outcomes[candidate] = FoldPredictions(predictions, sds, time.monotonic() - self.begun)

    def more(self, candidates: Sequence[Candidate], share: tuple[float, float]) -> None:
        """Try candidates as far as there is time; `share` is the part of all work that they are."""
        if self.jobs == 1 or len(candidates) < 2:
            outcomes = self._in_turn(candidates, share)
        else:
            self.progress("Trying models", share[0])
            outcomes = Parallel(n_jobs=self.jobs, return_as="generator")(
                delayed(self.validation.within)(candidate, self._latest) for candidate in candidates
            )
        for candidate, outcome in zip(candidates, outcomes, strict=True):
            if outcome is None:
                self.skipped.append(candidate)
            elif isinstance(outcome, str):
                self.failed[candidate.label] = outcome
            else:
                self.outcomes[candidate] = outcome

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

    def _in_turn(
        self, candidates: Sequence[Candidate], share: tuple[float, float]
    ) -> Iterator[FoldPredictions | str | None]:
        for m, candidate in enumerate(candidates):
            if candidate.learner in {late.learner for late in self.skipped}:
                yield None  # of a learner that lacks an end there is no verdict
                continue

            def report(done: float, m: int = m, label: str = candidate.label) -> None:
                begin, end = share
                self.progress(
                    f"Trying {label}", begin + (end - begin) * (m + done) / len(candidates)
                )

            yield self.validation.within(candidate, self._latest, report)

    def finish(self) -> Trials:
        """Choose among the candidates, and among those at each end."""
        return _with_blend(self._trials(), self._selection)

    @property
    def _selection(self) -> Selection:
        return Selection(self.validation.spaces.rows, self.splits, self.metrics, self.blend)

    def _trials(self) -> Trials:
        selection, tried = self._selection, self._comparable()
        weights, names = selection.weights, [candidate.name for candidate in tried]
        each = np.stack([selection.scores(one.predictions) for one in tried.values()], axis=1)
        by_metric, plain = (Scores(names, values, weights) for values in each)

        def choice(some: Sequence[Candidate]) -> Choice:
            return selection.choice({c: tried[c].predictions for c in some}, by_metric)

        return Trials(
            list(tried),
            by_metric,
            plain,
            choices(list(tried), choice),
            predictions={c.name: one.predictions for c, one in tried.items()},
            seconds={c.name: one.seconds for c, one in tried.items()},
            sds={c.name: one.sds for c, one in tried.items()},
            skipped=[candidate.label for candidate in self.skipped],
            failed=self.failed,
        )

    def _comparable(self) -> dict[Candidate, FoldPredictions]:
        """Leave out learners, but for linear ones, that lack an end that others are compared at."""
        ends = {
            end: {c.learner for c in self.outcomes if c.end == end} for end in ("pooled", "cross")
        }
        both = ends["pooled"] & ends["cross"] if ends["cross"] else ends["pooled"]
        whole = both | {c.learner for c in self.outcomes if c.base == "linear"}
        lacking = [c for c in self.outcomes if c.learner not in whole]
        self.failed |= {c.label: "other models of their kind are missing" for c in lacking}
        return {c: one for c, one in self.outcomes.items() if c.learner in whole}


def _with_blend(trials: Trials, selection: Selection) -> Trials:
    """Add the blend that was chosen, if any, to the candidates."""
    choice = trials.choices["all"]
    if len(choice.weights) < 2 or choice.predictions is None:
        return trials
    ends = {trials.named(name).end for name in choice.weights}
    mixed: End = "cross" if "cross" in ends else "levels"
    end = ends.pop() if len(ends) == 1 else mixed
    blend = Candidate("blend", f"blend of {len(choice.weights)} models", end, None, "blend")
    # The standard deviation of a mean is at most the mean of standard deviations.
    sds = sum(weight * trials.sds[name] for name, weight in choice.weights.items())
    scores = selection.scores(choice.predictions)
    by_metric, plain = (
        Scores([*table.settings, "blend"], np.append(table.values, [values], axis=0), table.weights)
        for table, values in zip((trials.scores, trials.plain), scores, strict=True)
    )
    return replace(
        trials,
        candidates=[*trials.candidates, blend],
        scores=by_metric,
        plain=plain,
        predictions=trials.predictions | {"blend": choice.predictions},
        seconds=trials.seconds | {"blend": 0.0},
        sds=trials.sds | {"blend": np.asarray(sds)},
    )
