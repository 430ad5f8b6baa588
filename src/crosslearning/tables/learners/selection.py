"""The choices among candidates: of all of them, and of those at one end."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosslearning.evaluation.scores import Scores
from crosslearning.tables.forecast import blended
from crosslearning.tables.learners.blend import blend_weights
from crosslearning.tables.learners.candidates import Candidate
from crosslearning.tables.learners.trials import Array, Choice, best_choice
from crosslearning.tables.metrics import Metric, Predictions
from crosslearning.tables.rows import Rows, Splits

_MOST_BLENDED = 200_000  # rows


class Selection(NamedTuple):
    """How predictions of held-out rows are scored, by two metrics, and models chosen by the first.

    With `blend` by weights of their predictions, otherwise by their mean scores.
    """

    rows: Rows
    splits: Splits
    metrics: tuple[Metric, Metric]
    blend: bool

    @property
    def weights(self) -> Array:
        """Weight of the test rows of each split and task."""
        weights = np.zeros((len(self.splits.parts), self.rows.n_tasks))
        for of_split, (_, test) in zip(weights, self.splits.parts, strict=True):
            np.add.at(of_split, self.rows.codes[test], self.rows.row_weights[test])
        return weights

    def scores(self, predictions: Array) -> Array:
        """Scores by both metrics, shape (2, n_splits, n_tasks)."""
        scores = np.full((2, len(self.splits.parts), self.rows.n_tasks), np.nan)
        for s, (_, test) in enumerate(self.splits.parts):
            part = self.rows.take(test)
            if len(test) and np.isfinite(predictions[test]).all():
                predicted = Predictions.of(predictions[test], part.classes)
                for m, metric in enumerate(self.metrics):
                    scored = part.y, predicted, part.row_weights, part.codes, part.n_tasks
                    scores[m, s] = metric.of_tasks(*scored)[0]
        return scores

    def choice(self, tried: Mapping[Candidate, Array], scores: Scores) -> Choice:
        """Choose among candidates by their predictions, or by their scores.

        The choice for a split is made on the other splits.
        """
        scored = np.zeros(len(self.rows.y), dtype=bool)
        scored[np.concatenate([test for _, test in self.splits.parts])] = True
        usable = {c: one for c, one in tried.items() if np.isfinite(one[scored]).all()}
        few = len(usable) < 2 or len(self.splits.parts) < 2 or len(scored) > _MOST_BLENDED
        if few or not self.blend:
            return best_choice(list(tried), scores.of([c.name for c in tried]))
        cross = np.array([c.end == "cross" for c in usable])
        everyone = np.stack(list(usable.values()))
        predictions = np.full_like(everyone[0], np.nan)
        for _, test in self.splits.parts:
            others = scored.copy()
            others[test] = False
            if others.any():
                weights = self._weights(everyone, others, cross)
                predictions[test] = blended(weights, everyone[:, test])
        final = self._weights(everyone, scored, cross).tolist()
        kept = {c.name: weight for c, weight in zip(usable, final, strict=True) if weight > 0}
        return Choice(kept, self.scores(predictions)[0], predictions)

    def _weights(
        self, predictions: Array, use: NDArray[np.bool_], cross: NDArray[np.bool_]
    ) -> Array:
        rows = self.rows.take(np.flatnonzero(use))
        return blend_weights(predictions[:, use], rows, self.metrics[0].name, cross)


def choices(
    candidates: Sequence[Candidate], choice: Callable[[Sequence[Candidate]], Choice]
) -> dict[str, Choice]:
    """Choose among all candidates, and among those that a sentence compares them with.

    Separate models are compared with only if every learner that is kept, but for trees, has them.
    """
    ends = {end: [c for c in candidates if c.end == end] for end in ("pooled", "separate")}
    made = {"all": choice([c for c in candidates if c.kept])}
    if ends["pooled"]:
        made["pooled"] = choice(ends["pooled"])
    separate = {c.learner for c in ends["separate"]}
    used = [c for c in candidates if c.name in made["all"].weights and c.base != "trees"]
    if used and ends["separate"] and all(c.separate_end in separate for c in used):
        made["separate"] = choice(ends["separate"])
    linear = [c for c in candidates if c.base == "linear"]
    if len(linear) < len(candidates):
        made["linear"] = choice(linear)
    return made
