"""Quantiles of the target of a table: what is fitted, said, predicted and refused."""

import io
from contextlib import redirect_stdout

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mean_pinball_loss

from crosslearning.cli import main
from crosslearning.tables import TableModel, fit_files, fit_table
from tests.support.cli import check_failure
from tests.support.tables import shops

LEVEL = 0.9


def skewed(rows, seed):
    """Eight tasks whose levels differ, with noise far from normal."""
    rng = np.random.default_rng(seed)
    task, x = np.arange(rows) % 8, rng.normal(size=rows)
    return pd.DataFrame({"g": task, "x": x, "y": x + task + 2.0 * rng.exponential(size=rows)})


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Fit by the command: the folder, what was printed, and both tables."""
    folder = tmp_path_factory.mktemp("quantile")
    tables = {"train": skewed(400, 0), "test": skewed(1200, 1)}
    for name, frame in tables.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    command = ["fit", str(folder / "train.csv"), "--task", "g", "--target", "y", "--folds", "2"]
    command += ["--family", "quantile", "--quantile", str(LEVEL), "--base", "linear"]
    command += ["--time-budget", "inf"]  # however busy the machine is
    command += ["--holdout", str(folder / "test.csv"), "--out", str(folder / "fit")]
    with redirect_stdout(io.StringIO()) as printed:
        assert main(command) == 0
    return folder, printed.getvalue(), *tables.values()


def pinball(frame, predictions):
    """Mean over tasks of the pinball loss, by scikit-learn."""
    both = frame.assign(p=np.asarray(predictions))
    return np.mean([mean_pinball_loss(t.y, t.p, alpha=LEVEL) for _, t in both.groupby("g")])


def test_the_share_below_the_prediction_is_the_level(fitted):
    folder, _, _, test = fitted
    model = TableModel.load(folder / "fit")
    predictions = model.predict(test)
    assert predictions.columns.tolist() == ["prediction", "std"]
    assert np.mean(test["y"] <= predictions["prediction"]) == pytest.approx(LEVEL, abs=0.03)
    own = model.estimator.predict(test[["x"]].to_numpy(), test["g"], return_std=True)
    np.testing.assert_allclose(predictions.to_numpy().T, own, rtol=1e-10)
    assert model.estimator.quantile == model.quantile == LEVEL


def test_scores_are_pinball_losses(fitted):
    folder, _, _, test = fitted
    found = pd.read_json(folder / "fit" / "results.json", typ="series")
    model = TableModel.load(folder / "fit")
    loss = pinball(test, model.predict(test)["prediction"])
    assert model.score(test).score == pytest.approx(loss)
    assert found["holdout"] == {"rows": 1200, "score": pytest.approx(loss)}
    chosen = found["models"][0]
    assert chosen["error"] == pytest.approx(chosen["score"])
    assert found["score"]["error"] == found["score"]["name"]
    assert found["score"]["baseline"] > chosen["score"]
    assert {m["name"] for m in found["models"]} == {
        f"{end}-quantile" for end in ("pooled", "levels", "cross", "separate")
    }
    # Levels 0 to 7 of 50 rows each are known almost exactly, in the units of the target.
    assert found["differences"]["levels"][0]["level"]["sd"] == pytest.approx(
        np.std(np.arange(8), ddof=1), rel=0.25
    )
    assert found["differences"]["noise"] is None


def test_terminal_and_page_say_which_quantile(fitted):
    folder, printed, *_ = fitted
    assert "0.9 quantile of y by g: regression (quantile, as asked)" in printed
    assert "predicting the training 0.9 quantile gives" in printed
    assert "\N{NO-BREAK SPACE}% of the held-out targets are at most their prediction" in printed
    page = (folder / "fit" / "report.html").read_text()
    assert ">0.9 quantile of y by g</h1>" in page
    assert "a model of the 0.9 quantile of y for each g" in page
    assert "Predicted 0.9 quantile of y as one column changes" in page
    assert "Predictions come with intervals" not in page


def test_the_median_with_curves_but_neither_trees_nor_blends():
    given = {"task": "g", "target": "y", "family": "quantile", "folds": 2, "time_budget": np.inf}
    model = fit_table(skewed(80, 0).query("g < 3"), **given)
    assert model.quantile == 0.5
    names = {m["name"] for m in model.results["models"]}
    assert {"cross-quantile-splines", "pooled-quantile-splines"} < names
    assert not any("boosting" in name or "blend" in name for name in names)
    assert "calibration" not in model.results


def test_coverage_is_refused(fitted, capsys):
    folder = fitted[0]
    arguments = [str(folder / "fit"), str(folder / "test.csv"), "--coverage", "0.8"]
    assert main(["predict", *arguments]) == 2
    check_failure("--coverage is for intervals, but this model predicts the 0.9 quantile", capsys)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--quantile", "0.9"], "Option quantile needs family=quantile; got family=auto"),
        (
            ["--family", "quantile", "--quantile", "1"],
            "must be between 0 and 1; got 1.0",
        ),
        (
            ["--family", "quantile", "--quantile", "nan"],
            "must be between 0 and 1; got nan",
        ),
        (
            ["--family", "quantile", "--metric", "mae"],
            "must be one of pinball-loss for quantile; got 'mae'",
        ),
        (
            ["--family", "quantile", "--base", "boosting"],
            "for one task column, and not for base=boosting",
        ),
        (["--family", "quantile", "--kind", "classification"], "is for numbers, not classes"),
    ],
)
def test_bad_options_are_one_line(options, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shops().to_csv("shops.csv", index=False)
    assert main(["fit", "shops.csv", "--task", "shop", "--target", "sales", *options]) == 2
    check_failure(message, capsys)


@pytest.mark.usefixtures("little_room")
def test_chunks_are_refused(tmp_path, capsys):
    shops().to_parquet(tmp_path / "a.parquet")
    asked = {"task": "shop", "target": "sales"}
    with pytest.raises(ValueError, match="Option family=quantile needs all rows in memory"):
        fit_files(tmp_path, **asked, family="quantile")
    options = ["--task", "shop", "--target", "sales", "--family", "quantile"]
    assert main(["fit", str(tmp_path), *options]) == 2
    check_failure("Option family=quantile needs all rows in memory", capsys)
