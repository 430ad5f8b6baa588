"""What is kept of the models tried on a table, and what is said of it."""

from dataclasses import replace

import numpy as np
import pytest

from crosslearning.evaluation.scores import Scores
from crosslearning.tables.candidates import Candidate
from crosslearning.tables.trials import Trials
from crosslearning.tables.verdict import compared, reason, verdict

KINDS = {
    "pooled": ("one pooled model", "pooled", "linear"),
    "levels": ("common slopes, a level per task", "baseline", "linear"),
    "cross": ("cross-learned", "cross", "linear"),
    "separate": ("separate models", "separate", "linear"),
    "separate-splines": ("separate models with curves", "separate", "splines"),
    "blend": ("blend of 2 models", "cross", "blend"),
}


def trials(**errors):
    """Trials of models with these errors by task."""
    names = [name.replace("_", "-") for name in errors]
    kinds = [(name, *KINDS[name]) for name in names]
    tried = [Candidate(name, label, sharing, None, base) for name, label, sharing, base in kinds]
    values = -np.array([*errors.values()], dtype=float)[:, np.newaxis]
    scores = Scores(names, values, np.ones(values.shape[1:]))
    weights = {"separate-splines": 0.6, "cross": 0.4} if "blend" in errors else {}
    return Trials(tried, scores, scores, weights=weights)


def said(found):
    """The verdict on trials."""
    n_tasks = found.scores.values.shape[2]
    comparison = compared(found, np.arange(n_tasks), np.full(n_tasks, 9))
    return verdict(comparison, found, "mean squared error")


NOISE = np.resize([0.1, -0.1, 0.05, -0.05], 20)


@pytest.mark.parametrize(("error", "kept"), [(1.9, "blend"), (2.0, "cross"), (2.1, "cross")])
def test_a_blend_is_not_kept_where_a_part_is_as_good(error, kept):
    found = trials(
        pooled=4 + NOISE, cross=2 + NOISE, separate_splines=3 - NOISE, blend=error + NOISE
    )
    assert found.chosen.name == kept


def test_a_blend_is_kept_where_a_part_may_be_better_by_chance():
    found = trials(pooled=4 + NOISE, cross=2 + NOISE, blend=2.01 - NOISE)
    assert found.best.name == "cross"
    assert found.chosen.name == "blend"


@pytest.mark.parametrize(("error", "kept"), [(1.99, "cross"), (1.0, "pooled")])
def test_a_model_with_all_the_weight_is_kept_unless_another_is_better_beyond_chance(error, kept):
    found = replace(trials(pooled=error - NOISE, cross=2 + NOISE), weights={"cross": 1.0})
    assert found.best.name == "pooled"
    assert found.chosen.name == kept
    assert found.parts == {kept: 1.0}
    words = f"is 2.000, and that of one pooled model {error:.3f}, which is better by less than"
    assert (words in reason(found, "on rows")) == (kept == "cross")


def test_the_headline_is_about_the_model_that_is_kept():
    found = trials(
        pooled=4 + NOISE,
        cross=3 + NOISE,
        separate=2.5 + NOISE,
        separate_splines=2.0 + NOISE,
        blend=1.9 - NOISE,
    )
    text = said(found)
    assert text.startswith(
        "Sharing helps: the blend (60% separate models with curves, 40% cross-learned) is better "
        "than separate models with curves by 0.1000"
    )
    assert "(1.900 against 2.000;" in text
    assert "60% separate models with curves, 40% cross-learned" in reason(found, "on rows")


def test_the_best_of_each_kind_is_named():
    alike = trials(pooled=2 + NOISE, levels=2.5 - NOISE, cross=3 + NOISE, separate=4 + NOISE)
    assert said(alike).endswith(
        "The model with common slopes and a level per task is worse than one pooled model by "
        "0.5000 ± 0.036 in mean squared error (2.500 against 2.000; standard error paired over "
        "20 tasks)."
    )
    apart = trials(
        pooled=9 + NOISE, cross=3 - NOISE, separate=4 + NOISE, separate_splines=2 + NOISE
    )
    assert said(apart).startswith(
        "Separate models are best here: cross-learning is worse than separate models with curves "
    )
    tied = trials(pooled=9 + NOISE, levels=3 + NOISE, separate=3 + NOISE)
    assert said(tied).endswith("but as good as separate models.")


def test_one_task_that_dominates_does_not_hide_all_others():
    large = np.append(np.zeros(19), 1000.0)
    text = said(trials(pooled=5 + NOISE + large, levels=4 - NOISE + large / 2, separate=9 + large))
    assert text.startswith("Sharing helps: the model with common slopes and a level per task is ")
    assert "uncertain in the mean, but 20 of 20 tasks are better off" in text


def test_a_held_out_table_decides_what_is_said():
    found = trials(pooled=5 + NOISE, levels=2 + NOISE, cross=3 - NOISE, separate=4 + NOISE)
    kept = {c.name: c for c in found.candidates}
    assert said(replace(found, kept=kept["cross"])) == (
        "On the held-out table, the model that is kept loses: cross-learning is worse than common "
        "slopes, a level per task by 1.000 ± 0.036 in mean squared error (3.000 against 2.000; "
        "standard error paired over 20 tasks)."
    )
    text = said(replace(found, kept=kept["levels"]))
    assert text.startswith("On the held-out table, sharing helps: the model with common slopes and")
    close = trials(pooled=5 + NOISE, levels=2.99 + 3 * NOISE, cross=3 - NOISE, separate=4 + NOISE)
    kept = {c.name: c for c in close.candidates}
    text = said(replace(close, kept=kept["cross"]))
    assert text.startswith("On the held-out table, sharing helps: cross-learning is better than")
    assert "The model that is kept does not do best there: it is worse than common slopes" in text
    assert text.endswith(", which may be chance.")
    told = trials(pooled=5 + NOISE, cross=3 - NOISE, separate=2.99 + 3 * NOISE)
    text = said(replace(told, kept=told.candidates[1]))
    assert text.startswith("On the held-out table, tasks differ: cross-learning is better than one")
    assert text.count("worse than separate models by") == 1
    assert "does not do best there" not in text
    pooled = said(replace(told, kept=told.candidates[0]))
    assert "the model that is kept loses: one pooled model is worse than separate models" in pooled


def test_a_gain_that_may_be_chance_is_a_doubt_not_a_denial():
    unsure = trials(pooled=3 + 9 * NOISE, cross=2.9 - 9 * NOISE, separate=9 + NOISE)
    assert said(unsure).startswith(
        "These 20 tasks cannot tell whether sharing helps beyond one model: cross-learning is "
        "better than one pooled model by 0.1000 "
    )
    one = trials(pooled=[3.0], cross=[2.0], separate=[9.0])
    assert said(replace(one, kept=one.candidates[1])) == (
        "On the held-out table, one task cannot tell whether sharing helps beyond one model: "
        "cross-learning is better than one pooled model by 1.000 in mean squared error (2.000 "
        "against 3.000)."
    )
    lost = trials(pooled=[2.0], cross=[3.0], separate=[9.0])
    text = said(replace(lost, kept=lost.candidates[1]))
    assert "as far as 1\N{NO-BREAK SPACE}task can tell: cross-learning is worse than" in text


def test_a_pooled_model_that_wins_perhaps_by_chance_is_said_to():
    text = said(trials(pooled=2.9 - 9 * NOISE, cross=3 + 9 * NOISE, separate=9 + NOISE))
    assert text.startswith("One model for all is best here: ")
    assert text.endswith("standard error paired over 20 tasks), which may be chance.")


def test_two_gains_are_added_and_a_gain_and_a_loss_are_opposed():
    gains = trials(pooled=9 + NOISE, cross=3 - 9 * NOISE, separate=3.1 + 9 * NOISE)
    assert ", and better than separate models by 0.1000 " in said(gains)
    opposed = trials(pooled=9 + NOISE, cross=3.1 - 9 * NOISE, separate=3 + 9 * NOISE)
    text = said(replace(opposed, kept=opposed.candidates[1]))
    assert ", but worse than separate models by 0.1000 " in text
