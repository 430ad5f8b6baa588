"""One sentence: does sharing help?"""

import pandas as pd
import pytest

from crosslearning.linear import Comparison
from crosslearning.tables.verdict import sentence, warning


def comparison(pooled, separate, error):
    """Errors of the two ends, against 10 of cross-learning."""
    scores = {"pooled": -pooled, "separate": -separate, "cross": -10.0}
    summary = pd.DataFrame({"score": scores})
    summary["gain"] = -10.0 - summary["score"]
    summary["standard_error"] = [error, error, 0.0]
    return Comparison(pd.DataFrame(scores, index=range(8)), summary)


@pytest.mark.parametrize(
    ("pooled", "separate", "error", "expected"),
    [
        (12.0, 11.0, 0.25, "Sharing helps: cross-learning has a log loss of 10.00 against 11.00 "),
        (9.0, 12.0, 0.25, "Cross-learning does not help: it has a log loss of 10.00 against 9.000"),
        (12.0, 10.5, 0.5, "Sharing makes no clear difference: cross-learning has"),
        (10.5, 12.0, 0.5, "Sharing helps, but one model for all does as well: cross-learning has"),
        (10.5, 10.6, 0.5, "Sharing makes no clear difference: "),
    ],
)  # fmt: skip
def test_sentences(pooled, separate, error, expected):
    assert sentence(comparison(pooled, separate, error), "log loss").startswith(expected)


def test_the_sentence_says_how_sure_it_is():
    size = "better by 1.00 ± 0.25, the standard error paired over 8 tasks."
    assert sentence(comparison(12.0, 11.0, 0.25), "log loss").endswith(size)


def test_few_tasks_are_less_sure():
    found = comparison(12.0, 11.0, 0.45)
    assert sentence(found, "log loss").startswith("Sharing makes no clear difference")
    found.tasks.iloc[1:] = float("nan")
    assert sentence(found, "log loss").startswith("Sharing makes no clear difference")


def test_models_of_no_use_are_called_so():
    found = comparison(12.0, 11.0, 0.25)
    assert warning(found, 20.0, "the mean") == ""
    assert warning(found, 9.5, "the mean").startswith("No model is better than predicting the mean")
