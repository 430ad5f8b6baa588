"""The command `fit`: what it prints, what it writes, how it fails."""

import io
import json
import shutil
import sys
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from types import SimpleNamespace

import pytest

from crosslearning.cli import main
from crosslearning.cli.fit_output import _print_center
from crosslearning.exceptions import ConvergenceWarning
from crosslearning.tables import TableModel
from crosslearning.tables.findings import CenterCoefficient
from tests.support.cli import check_failure
from tests.support.tables import shops

COLUMNS = ["--task", "shop", "--target", "sales"]
FAST = [*COLUMNS, "--base", "linear", "--folds", "2"]
FASTEST = [*FAST, "--family", "gaussian"]
FILES = ["coefficients.csv", "model.npz", "report.html", "results.json"]


def write_table(folder):
    frame = shops()
    frame.loc[[5, 9], "sales"] = None
    frame.to_csv(folder / "shops.csv", index=False)
    return "shops.csv"


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_table(tmp_path)


@pytest.fixture
def pageless(monkeypatch):
    """Write no report, for tests of other things."""
    monkeypatch.setattr("crosslearning.report.write", lambda folder, **_: folder / "report.html")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A fit with the default settings: its folder, and what was printed."""
    place, out, err = tmp_path_factory.mktemp("fitted"), io.StringIO(), io.StringIO()
    with chdir(place), redirect_stdout(out), redirect_stderr(err):
        assert main(["fit", write_table(place), *COLUMNS]) == 0
    folder = place / "crosslearning-shops"
    return SimpleNamespace(folder=folder, out=out.getvalue(), err=err.getvalue())


def test_it_prints_what_it_found_and_where_it_is(fitted):
    assert fitted.err == ""
    for text in (
        "sales by shop: regression (numbers with decimals), 118 rows, 4 tasks of 28 to 30 rows, ",
        "2 columns to learn from",
        "2 rows without a target left out",
        "column day left out: it is constant",
        "column one left out: it is constant",
        "one pooled model",
        "common slopes, a level per task",
        "chosen",
        "predicting the training mean gives",
        "choosing the model without the rows that it is scored on gives",
        "Tasks differ (standard deviations, in sales): level ",
        "Model    ",
        "Coefficients  crosslearning-shops/coefficients.csv, of the model: ",
        "crosslearning-shops/report.html",
        "crosslearning predict crosslearning-shops TABLE",
    ):
        assert text in fitted.out
    assert sorted(path.name for path in fitted.folder.iterdir()) == FILES


@pytest.mark.usefixtures("pageless")
def test_the_score_on_a_held_out_table(table, capsys):
    shops(80, 5, seed=1).to_csv("later.csv", index=False)
    assert main(["fit", table, *FASTEST, "--holdout", "later.csv"]) == 0
    assert "On the 80 rows of the held-out table: mean squared error " in capsys.readouterr().out


@pytest.mark.usefixtures("pageless")
def test_models_without_the_bound_are_for_comparison_only(table, capsys):
    assert main(["fit", table, *FASTEST, "--epsilon", "0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for label, remark in (
        ("separate models", "for comparison only"),
        ("common slopes, a level per task", "for comparison only"),
        ("one pooled model", "chosen"),
    ):
        assert any(line.startswith(label) and line.endswith(remark) for line in lines)


@pytest.mark.usefixtures("pageless")
def test_json_and_quiet(table, tmp_path, capsys):
    assert main(["fit", table, *FASTEST, "--json", "--out", "a", "--seed", "3"]) == 0
    captured = capsys.readouterr()
    results = json.loads(captured.out)
    assert captured.err == ""
    assert results == json.loads((tmp_path / "a" / "results.json").read_text())
    assert results["provenance"]["seed"] == 3
    assert main(["fit", table, *FASTEST, "--quiet", "-o", "a"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("pageless")
def test_options_reach_the_fit(table, capsys):
    options = ["--features", "price, kind", "--features", "row", "--kind", "regression"]
    options += ["--category", "row", "--metric", "mae", "--family", "gaussian"]
    options += ["--holdout", table, "--epsilon", "3", "--weights", "one"]
    assert main(["fit", table, *FAST, *options, "--out", "a", "--json"]) == 0
    results = json.loads(capsys.readouterr().out)
    types = {column["name"]: column["type"] for column in results["provenance"]["columns"]}
    assert types == {"price": "number", "kind": "category", "row": "category"}
    assert results["target_kind"] == "regression"
    assert results["score"]["name"] == "mean absolute error"
    assert results["holdout"]["rows"] == 118
    bounds = [model for model in results["models"] if model["name"] == "cross"]
    assert bounds


@pytest.mark.usefixtures("pageless")
def test_lines_of_python_repeat_the_fit(table, tmp_path, capsys):
    """With the options that were given, and none of the others."""
    options = ["--category", "kind", "--base", "linear", "--seed", "3", "--folds", "2"]
    arguments = ["fit", table, *COLUMNS, *options]
    assert main([*arguments, "--holdout", table, "--quiet", "--out", "a"]) == 0
    found = json.loads((tmp_path / "a" / "results.json").read_text())
    assert "epsilon" not in found["python"]
    done = {}
    exec(found["python"], done)
    again = done["model"]
    scores = [
        {row["name"]: row["score"] for row in run["models"]} for run in (again.results, found)
    ]
    assert scores[0] == scores[1]
    assert again.results["holdout"] == found["holdout"]
    again.coefficients.to_csv(tmp_path / "again.csv", index=False)
    assert (tmp_path / "again.csv").read_text() == (tmp_path / "a" / "coefficients.csv").read_text()
    assert found["sentence"] in capsys.readouterr().out


@pytest.mark.usefixtures("pageless")
def test_tests_of_time_and_groups(table, capsys):
    for option, words in (("--time", "with a later row than"), ("--group", "with a held-out row")):
        assert main(["fit", table, *FASTEST, option, "row", "--json", "--out", "a"]) == 0
        assert words in json.loads(capsys.readouterr().out)["score"]["explanation"]


@pytest.mark.usefixtures("pageless")
def test_standard_input(table, tmp_path, capsys, monkeypatch):
    content = (tmp_path / table).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert main(["fit", "-", *FASTEST, "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert TableModel.load(tmp_path / "crosslearning-table").task == "shop"


@pytest.mark.usefixtures("pageless")
def test_warnings_are_one_line(table, capsys, monkeypatch):
    from crosslearning import tables

    model = tables.fit_table(shops(), task="shop", target="sales", base="linear", folds=2)

    def warns(*_, **__):
        for _ in range(2):
            warnings.warn("It stopped\nearly.", ConvergenceWarning, stacklevel=2)
        return model

    monkeypatch.setattr(tables, "fit_table", warns)
    assert main(["fit", table, *FASTEST]) == 0
    assert capsys.readouterr().err == "Warning: It stopped early.\n"
    assert main(["fit", table, *FASTEST, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.csv", *FAST], "Cannot read none.csv: No such file or directory. Check the path."),
        (["shops.csv", *FAST, "--task", "shops"], "Did you mean 'shop'?"),
        (["shops.csv", *FAST, "--target", "day"], "holds dates, such as 2024-01-01"),
        (
            ["shops.csv", *FAST, "--target", "one"],
            "must have at least 2 different values; all are 1",
        ),
        (["shops.csv", *FAST, "--features", "price,note"], "'note' cannot be a feature"),
        (
            ["shops.csv", *FAST, "--epsilon", "-1"],
            "Option epsilon must be a distance",
        ),
        (["shops.csv", *FAST, "--seed", "-1"], "Option seed must be at least 0; got -1"),
        (["shops.csv", *FAST, "--folds", "1"], "Option folds must be at least 2; got 1"),
        (["shops.csv", *FAST, "--jobs", "0"], "Option jobs must be at least 1"),
        (["shops.csv", *FAST, "--base", "deep"], "Option base must be one of auto"),
        (
            ["shops.csv", *FAST, "--quantile", "0.5"],
            "quantile needs family=quantile; got family=auto",
        ),
        (["shops.csv", *FAST, "--task", "kind"], "drop these rows with option drop_unlabelled."),
        (
            ["shops.csv", *FAST, "--target", "note", "--kind", "classification"],
            "may have at most 50; 'note' has 120 distinct values",
        ),
        (["shops.csv", *FAST, "--kind", "ranking"], "Option kind must be one of"),
        (["shops.csv", *FAST, "--family", "normal"], "Option family must be one of"),
        (["shops.csv", *FAST, "--metric", "auc"], "Option metric must be one of mse"),
        (["shops.csv", *FAST, "--out", "shops.csv"], "shops.csv is a file. Choose a folder."),
        (["shops.csv", *FAST, "--out", "."], "is not empty and holds no fit of a table"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, message, table, tmp_path, capsys):
    assert main(["fit", *arguments]) == 2
    check_failure(message, capsys)
    assert [path.name for path in tmp_path.iterdir()] == [table]  # nothing half-written


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["shops.csv", "--task", "shop"], "--target"),
        (["shops.csv", *FAST, "--epsilon", "wide"], "--epsilon"),
        (["shops.csv", *FAST, "--seed", "x"], "--seed"),
    ],
)
def test_usage_errors_are_one_line(arguments, message, table, tmp_path, capsys):
    assert main(["fit", *arguments]) == 2
    check_failure(message, capsys)
    assert [path.name for path in tmp_path.iterdir()] == [table]


def test_an_earlier_fit_survives_a_failure(fitted, table, tmp_path, capsys):
    folder = shutil.copytree(fitted.folder, tmp_path / "crosslearning-shops")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert main(["fit", table, *FAST, "--target", "day"]) == 2
    capsys.readouterr()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_options_from_a_file(table, tmp_path, capsys):
    config = tmp_path / "fit.toml"
    config.write_text('task = "shop"\ntarget = "sales"\nfeatures = ["price"]\n')
    config.write_text(config.read_text() + 'base = "linear"\nfolds = 2\nformat = ["svg"]\n')
    assert main(["fit", table, "--config", str(config), "--json", "--seed", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [column["name"] for column in found["provenance"]["columns"]] == ["price"]
    assert not any("curves" in model["label"] for model in found["models"])
    figures = {path.name for path in (tmp_path / "crosslearning-shops" / "figures").iterdir()}
    assert {"models.svg", "effect-1.svg", "gains.svg"} < figures
    config.write_text("tsak = 1")
    assert main(["fit", table, "--config", str(config)]) == 2
    assert "'tsak' is not one. See --help." in capsys.readouterr().err
    config.write_text("task")
    assert main(["fit", table, "--config", str(config)]) == 2
    assert "it is not TOML" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("folds = 2.5", "Option folds must be a whole number; got 2.5"),
        ("epsilon = true", "Option epsilon must be a number; got True"),
        ("features = 3", "Option features must be a list of names; got 3"),
        ('base = "deep"', "Option base must be one of auto"),
    ],
)
def test_values_in_a_file_have_types(line, message, table, tmp_path, capsys):
    (tmp_path / "fit.toml").write_text(line)
    assert main(["fit", table, *FAST, "--config", "fit.toml"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("pageless")
def test_one_name_in_a_file_is_a_list(table, tmp_path, capsys):
    (tmp_path / "fit.toml").write_text('features = "price"\ncategory = "price"')
    assert main(["fit", table, *FASTEST, "--config", "fit.toml", "--json"]) == 0
    (column,) = json.loads(capsys.readouterr().out)["provenance"]["columns"]
    assert (column["name"], column["type"]) == ("price", "category")


def test_of_several_classes_the_largest_coefficients_are_printed(capsys):
    rows = [
        CenterCoefficient(
            feature=feature,
            class_=name,
            estimate=estimate,
            std_error=1.0,
            low=None,
            high=None,
            between=(),
        )
        for name in "abcdefgh"
        for feature, estimate in (("x", 5.0), ("(intercept)", 9.0 if name == "c" else 0.1))
    ]
    levels = SimpleNamespace(levels=())
    _print_center(SimpleNamespace(center=rows, differences=levels))
    printed = capsys.readouterr().out
    assert "(6 that are closer to 0 are in the report)" in printed
    assert all(f"x, {name} " in printed for name in "abcdefgh")
    assert "(intercept), c " in printed
