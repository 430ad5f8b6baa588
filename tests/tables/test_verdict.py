"""What is kept of the models tried on a table, and what is said of it."""

from dataclasses import replace

import numpy as np
import pytest

from crosslearning.evaluation.comparison import Effect, Measure
from crosslearning.evaluation.scores import Scores
from crosslearning.tables.learners.candidates import Candidate, Choice, Trials, best_choice, choices
from crosslearning.tables.verdict import (
    beyond_linear,
    compared,
    reason,
    sentence,
    verdict_of,
)

LABELS = {
    "pooled": "one pooled model",
    "levels": "common slopes, a level per task",
    "cross": "cross-learned",
    "separate": "separate models",
}
ERROR = Measure("mean squared error")
NOISE = np.resize([0.1, -0.1, 0.05, -0.05], 20)


def trials(**errors):
    """Trials of models with these errors by task: an end, perhaps of a base, as `cross_splines`."""
    tried = []
    for name in errors:
        end, _, base = name.partition("_")
        label = LABELS[end] + (" with curves" if base == "splines" else "")
        tried.append(Candidate(name, label, end, None, base or "linear"))
    values = -np.array([*errors.values()], dtype=float)[:, np.newaxis]
    scores = Scores(list(errors), values, np.ones(values.shape[1:]))

    def choice(some):
        return best_choice(some, scores.of([c.name for c in some]))

    return Trials(tried, scores, scores, choices(tried, choice), baseline=-np.inf)


def comparison_of(made):
    n_tasks = made.scores.values.shape[2]
    return compared(made, np.arange(n_tasks), np.full(n_tasks, 9))


def judged(made):
    return verdict_of(comparison_of(made), made)


def text_of(made):
    return sentence(judged(made), comparison_of(made), made, ERROR)


@pytest.mark.parametrize(
    ("errors", "effect", "against"),
    [
        ({"pooled": 4, "cross": 2, "separate": 3}, Effect.HELPS, "separate"),
        ({"pooled": 3, "cross": 2, "separate": 4}, Effect.HELPS, "pooled"),
        ({"pooled": 2, "cross": 3, "separate": 4}, Effect.POOL, "pooled"),
        ({"pooled": 4, "cross": 3, "separate": 2}, Effect.HURTS, "pooled"),
        ({"pooled": 4, "levels": 2, "cross": 3, "separate": 5}, Effect.HELPS, "pooled"),
    ],
)
def test_sharing_is_judged_against_both_ends(errors, effect, against):
    made = trials(
        **{name: value + NOISE * (-1) ** k for k, (name, value) in enumerate(errors.items())}
    )
    verdict = judged(made)
    assert (verdict.effect, verdict.against) == (effect, against)
    gains = errors[against] - min(errors.values())
    assert verdict.gain == pytest.approx(gains, abs=0.1)
    assert (verdict.helped, verdict.hurt, verdict.n_tasks) == (20 * (gains > 0), 0, 20)


def test_tasks_differ_where_separate_models_may_do_as_well():
    gains = trials(pooled=9 + NOISE, cross=3 - 9 * NOISE, separate=3.1 + 9 * NOISE)
    assert judged(gains).effect is Effect.DIFFER
    assert ". Cross-learning is better than separate models by 0.1000 " in text_of(gains)
    close = trials(pooled=9 + NOISE, cross=3.1 - 9 * NOISE, separate=3 + 9 * NOISE)
    cross = Choice({"cross": 1.0}, close.scores.of(["cross"]).values[0])
    made = replace(close, choices={**close.choices, "all": cross, "paired": cross})
    assert ". Cross-learning is worse than separate models by 0.1000 " in text_of(made)


def test_what_curves_bring_is_not_credited_to_sharing():
    """Curves halve the error at every end: that is said of curves, not of sharing."""
    made = trials(
        pooled=4 + NOISE,
        cross=4.01 + NOISE,
        separate=5 + NOISE,
        pooled_splines=2 + NOISE,
        cross_splines=1.999 - NOISE,
        separate_splines=3 + NOISE,
    )
    verdict = judged(made)
    assert made.chosen.name == "cross_splines"
    assert verdict.effect is Effect.UNDECIDED
    assert judged(made).labels["pooled"] == "one pooled model with curves"
    beyond = beyond_linear(made, comparison_of(made), ERROR)
    start = "With curves, the model is better than linear models chosen in the same way by 2.0"
    assert beyond.startswith(start)


def test_a_blend_is_compared_with_blends_of_the_ends_of_its_learners():
    errors = {"pooled": 4, "cross": 2, "separate": 6, "pooled_splines": 3, "cross_splines": 1}
    made = trials(
        **{name: value + NOISE for name, value in errors.items()}, separate_splines=9 - NOISE
    )
    blends = {
        "all": Choice({"cross": 0.5, "cross_splines": 0.5}, -1.2 + NOISE[np.newaxis], np.empty(0)),
        "pooled": Choice({"pooled": 0.3, "pooled_splines": 0.7}, -3.1 - NOISE[np.newaxis]),
    }
    blend = Candidate("blend", "blend of 2 models", "cross", None, "blend")
    both = np.append(made.scores.values, [blends["all"].scores], axis=0)
    scores = Scores([*made.names, "blend"], both, made.scores.weights)
    made = replace(
        made,
        candidates=[*made.candidates, blend],
        scores=scores,
        choices=dict(made.choices) | blends,
    )
    text = text_of(made)
    assert text.startswith(
        "Sharing helps: the blend of 2 models is better than the blend of 2 pooled models by 1.900"
    )
    assert "50% cross-learned, 50% cross-learned with curves" in reason(made, "on rows")


def test_sharing_is_compared_with_separate_models_of_learners_that_have_them():
    errors = {"pooled": 4 + NOISE, "cross": 3 - NOISE, "separate": 3.5 + NOISE}
    made = trials(**errors, pooled_trees=2 + NOISE, cross_trees=1 - NOISE)
    assert made.choices["paired"].weights == {"cross": 1.0}
    assert comparison_of(made).methods == ("pooled", "cross")
    verdict = judged(made)
    assert (verdict.effect, verdict.against) == (Effect.HELPS, "pooled")
    assert verdict.gain == pytest.approx(1.0)
    worse = trials(
        **errors | {"separate": 3 + NOISE}, pooled_trees=2 + NOISE, cross_trees=1 - NOISE
    )
    assert judged(worse).effect is Effect.DIFFER
    assert "Without boosted trees, cross-learning is as good as separate models." in text_of(worse)
    plain = trials(**errors, pooled_trees=9 + NOISE, cross_trees=9 - NOISE)
    assert plain.choices["paired"] is plain.choices["all"]
    assert comparison_of(plain).methods == ("pooled", "separate", "cross")


def test_separate_models_that_were_not_fitted_are_not_spoken_of():
    made = trials(pooled=4 + NOISE, cross=3 - NOISE)
    verdict = judged(made)
    assert (verdict.effect, verdict.against) == (Effect.DIFFER, "pooled")
    assert text_of(made).startswith("Tasks differ: cross-learning is better than one pooled model")
    assert "separate" not in text_of(made)


def test_one_task_that_dominates_does_not_hide_all_others():
    large = np.append(np.zeros(19), 1000.0)
    made = trials(pooled=5 + NOISE + large, levels=4 - NOISE + large / 2, separate=9 + large)
    assert text_of(made).startswith("Sharing helps: the model with common slopes and a level per")
    assert "uncertain in the mean, but 20 of 20 tasks are better off" in text_of(made)


def test_without_a_model_that_shares_nothing_is_said_about_sharing():
    made = trials(pooled=4 + NOISE, separate=3 + NOISE)
    assert judged(made).effect is Effect.NOTHING
    assert text_of(made).startswith("Nothing can be said about sharing")


def test_an_only_choice_is_said_to_be_one():
    made = trials(pooled=2 + NOISE, levels=1 + NOISE, separate=1 - NOISE)
    tried = [replace(c, kept=c.end == "pooled") for c in made.candidates]
    bounded = replace(made, candidates=tried, choices={"all": made.choices["pooled"]})
    assert reason(bounded, "on rows") == "No other model was tried within the bound."


def test_separate_models_are_best_only_beyond_chance():
    made = trials(pooled=3 + 9 * NOISE, cross=4 + NOISE, separate=2.9 - 9 * NOISE)
    assert made.chosen.end == "separate"
    assert judged(made).effect is Effect.UNDECIDED
    assert ": separate models are better than one pooled model by 0.1000 " in text_of(made)


def test_a_gain_that_may_be_chance_is_a_doubt_not_a_denial():
    unsure = trials(pooled=3 + 9 * NOISE, cross=2.9 - 9 * NOISE, separate=9 + NOISE)
    assert judged(unsure).effect is Effect.UNDECIDED
    assert text_of(unsure).startswith(
        "These 20 tasks cannot tell whether sharing helps beyond one model: cross-learning is "
        "better than one pooled model by 0.1000 "
    )
    little = trials(pooled=3 + 1e-6 * NOISE, cross=3 - 1e-5 + 0 * NOISE, separate=9 + NOISE)
    assert judged(little).effect is Effect.POOL
