"""Numbers as people write them, and what is said of columns and labels that are odd."""

import io
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from crosslearning.cli import main
from crosslearning.frames import reading as table_files
from crosslearning.frames.columns import (
    as_numbers,
    column_of,
    decimal_mark,
    mark_of,
    numbers_in,
)
from crosslearning.frames.encoder import TableEncoder
from crosslearning.frames.survey import Roles, Survey
from crosslearning.frames.target import features_of, remarks, target_of
from crosslearning.tables import (
    fit_files,
    fit_table,
    predict_files,
    predict_table,
    read_table,
    write_table,
)
from tests.support.tables import shops


def german(text):
    """1,234.56 as 1.234,56."""
    return text.translate(str.maketrans(",.", ".,"))


FORMATS = {
    "comma": lambda v: german(f"{v:.2f}"),
    "comma and points": lambda v: german(f"{v:,.2f}"),
    "euro before": lambda v: "€ " + german(f"{v:,.2f}"),
    "euro after": lambda v: german(f"{v:,.2f}") + " €",
    "code after": lambda v: german(f"{v:,.2f}") + " EUR",
    "code before": lambda v: f"CHF {v:,.2f}".replace(",", "'"),
    "curly apostrophe": lambda v: f"{v:,.2f}".replace(",", "’"),
    "dollar": lambda v: f"${v:,.2f}",
    "code and point": lambda v: f"{v:,.2f} USD",
    "percent": lambda v: f"{v:.2f}%",
    "percent and comma": lambda v: german(f"{v:.2f}") + " %",
    "space": lambda v: german(f"{v:,.2f}").replace(".", " "),
    "no-break space": lambda v: german(f"{v:,.2f}").replace(".", "\xa0") + "\xa0€",
    "narrow space": lambda v: f"{v:,.2f}".replace(",", "\u202f"),
}


@pytest.mark.parametrize("write", FORMATS.values(), ids=FORMATS.keys())
def test_what_is_written_in_any_format_is_read(write):
    rng = np.random.default_rng(0)
    values = np.round(rng.random(200) * 10 ** rng.integers(8, size=200), 2)
    column = pd.Series([write(v) for v in values], name="x")
    assert column_of(column).type == "number"
    np.testing.assert_allclose(np.abs(as_numbers(column)), values)


@pytest.mark.parametrize(
    ("texts", "mark"),
    [
        (["1.234", "2,5"], ","),
        (["1,234", "2.5"], "."),
        (["1.234.567"], ","),
        (["1,234,567 USD"], "."),
        (["0.123"], "."),
        (["1234.567"], "."),
        (["3.000 EUR", "950 EUR"], None),
        (["3.000", "1500"], None),
        (["1.234"], None),
        (["12", "text", "1.5.2024"], None),
    ],
)
def test_the_mark_is_found_in_the_column(texts, mark):
    assert decimal_mark(texts) == mark


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("g,x\na,1.234\nb,2\n", [1.234, 2]),
        ("g,x\na,12.500\nb,950\n", [12.5, 950]),  # a comma separates
        ("g,x,y\na,0,13.09\nb,3.500,9\n", [0, 3.5]),
        ("g;x;y\na;950;13.09\nb;3.500;9\n", [950, 3.5]),  # another column shows the mark
        ("g;x\na;1.234\nb;950\n", [1.234, 950]),
        ("g;x\na;12.500\nb;0\n", [12.5, 0]),
        ("g;x\na;12.500\nb;1500\n", [12.5, 1500]),
        ("g;x\na;12,345\nb;950\n", [12.345, 950]),
    ],
)
def test_a_point_is_a_decimal_point_unless_all_speaks_against_it(text, values, tmp_path):
    assert as_numbers(read_table(io.BytesIO(text.encode()))["x"]).tolist() == values
    (tmp_path / "table.csv").write_text(text)
    files = table_files.Files.of(str(tmp_path / "table.csv"), text=["g"])
    (frame,) = files.each(["x"], lambda _, frame: frame)
    assert as_numbers(frame["x"]).tolist() == values
    out = io.BytesIO()
    write_table(read_table(io.BytesIO(text.encode())).assign(p=0.5), out)
    assert (b"0,5" in out.getvalue()) == ("12,345" in text)


def test_thousands_do_not_begin_with_zero():
    for mark, text in ((",", "0.123"), (".", "0,123"), (".", "00,123"), (",", "0 123")):
        assert np.isnan(numbers_in(pd.Series([text]), mark)).all()
    assert numbers_in(pd.Series(["10.123", "0,123", "007"]), ",").tolist() == [10123, 0.123, 7]
    column = pd.Series([*(f"{k},5" for k in range(20)), "0.123"], name="x")
    assert column_of(column).note.endswith("count as missing: '0.123'")


def test_what_a_column_does_not_show_its_file_or_the_fit_tells():
    column = pd.Series(["1.234", "2.345"])
    assert (mark_of(column), mark_of(column, ",")) == (".", ",")
    column.attrs["dialect"] = table_files.Dialect(";", ",", "utf-8")
    assert mark_of(column) == ","
    assert numbers_in(column, ",").tolist() == [1234, 2345]


def test_columns_of_one_file_may_have_different_marks():
    text = "g;a;b;c;d\nx;5.0;1.234,5;0,5;3.000 EUR\ny;2.5;2,0;1,25;12.500 EUR\n"
    table = read_table(io.BytesIO(text.encode()))
    found = {name: as_numbers(table[name]).tolist() for name in "abcd"}
    assert found == {"a": [5, 2.5], "b": [1234.5, 2], "c": [0.5, 1.25], "d": [3000, 12500]}
    quoted = read_table(io.BytesIO(b'g,x\na,"0,5"\nb,"1,25"\n'))
    assert as_numbers(quoted["x"]).tolist() == [0.5, 1.25]


def test_a_few_values_that_are_no_numbers_are_missing_and_noted():
    values = pd.Series([*(f"{k},5" for k in range(40)), "k.A.", "k.A.", "soon", None], name="x")
    column = column_of(values)
    assert (column.type, column.missing, column.reason) == ("number", 4, "")
    assert column.note.endswith("count as missing: 'k.A.', 'soon'")
    encoder = TableEncoder.of(values.to_frame(), ["x"], [])
    assert (encoder.marks, encoder.flagged) == ({"x": ","}, ["x"])
    new = pd.DataFrame({"x": ["k.A.", "1.234"]})
    assert encoder.encode(new).tolist() == [[encoder.numbers["x"], 1], [1234, 0]]
    assert encoder.unread(new) == {"x": 1}


def test_text_with_other_units_is_no_number():
    weights = pd.Series([f"{k % 30} kg" for k in range(200)], name="x")
    assert column_of(weights).type == "category"
    with pytest.raises(ValueError, match="must hold finite numbers; got '0 kg'"):
        column_of(weights, "number")
    spaced = pd.Series([f"{k} 000" for k in range(100, 150)], name="x")
    assert column_of(spaced).type != "number"  # perhaps telephone numbers
    assert column_of(spaced, "number").type == "number"


@pytest.fixture(scope="module")
def loans(tmp_path_factory):
    """A German table of loans, and a fit of it."""
    rng = np.random.default_rng(0)
    income = np.round(np.exp(rng.normal(10, 0.5, 120)), 2)
    rate = 2 + 3 * (income / income.max()) + 0.1 * rng.normal(size=120)
    frame = pd.DataFrame(
        {
            "stadt": np.array(["Köln", "Bonn", "bonn"])[np.arange(120) % 3],
            "einkommen": [german(f"{v:,.2f}") + " €" for v in income],
            "menge": [german(f"{v:,.0f}") + " EUR" for v in income / 10],
            "quote": ["k.A." if k % 20 == 3 else german(f"{v:.2f}") for k, v in enumerate(rate)],
            "alter": np.where(rng.random(120) < 0.5, "5.0", "7.5"),
            "zins": [german(f"{v:.2f}") + " %" for v in rate],
        }
    )
    path = tmp_path_factory.mktemp("loans") / "loans.csv"
    frame.to_csv(path, sep=";", index=False, encoding="cp1252")
    quick = {"base": "linear", "folds": 2, "family": "gaussian"}
    return path, fit_table(read_table(path), task="stadt", target="zins", **quick)


def test_a_table_in_another_dialect_is_fitted(loans):
    found = loans[1].results
    assert found["target_kind"] == "regression"
    types = {column["name"]: column["type"] for column in found["provenance"]["columns"]}
    assert set(types.values()) == {"number"}
    notes = "\n".join(found["notes"])
    assert "column quote: values that are not numbers count as missing: 'k.A.'" in notes


def test_a_row_is_predicted_by_the_mark_of_the_fit(loans):
    text = "stadt;einkommen;menge;quote;alter\nKöln;20.000 €;1.234;k.A.;5.0\n".encode("cp1252")
    found = predict_table(loans[1], io.BytesIO(text))
    values = {"einkommen": [20000.0], "menge": [1234.0], "quote": [np.nan], "alter": [5.0]}
    expected = loans[1].predict(pd.DataFrame({"stadt": ["Köln"]} | values))
    assert found.table["prediction"].tolist() == expected["prediction"].tolist()
    assert found.unread == {"quote": 1}
    out = io.BytesIO()
    write_table(found.table, out)
    assert out.getvalue().startswith(text[: text.index(b"\n")])
    assert "Köln;20.000 €;1.234;k.A.;5.0;".encode("cp1252") in out.getvalue()


@pytest.mark.usefixtures("little_room")
def test_a_table_in_chunks_is_read_as_in_memory(loans, tmp_path, monkeypatch):
    path, model = loans
    monkeypatch.setattr(table_files, "_NUMBERS", 6 * 50)
    found = fit_files(path, task="stadt", target="zins", folds=2)
    assert found.encoder.numbers == pytest.approx(model.encoder.numbers)
    assert found.encoder.ranges == model.encoder.ranges
    assert found.encoder.flagged == model.encoder.flagged == ["quote"]
    notes = "\n".join(found.results["notes"])
    note = "column quote: values that are not numbers count as missing: 'k.A.'"
    assert note in notes.splitlines()
    said = predict_files(model, path, tmp_path / "out.csv")
    expected = predict_table(model, path)
    assert said.unread == expected.unread == {"quote": 6}
    assert said.score == pytest.approx(expected.score)
    written = read_table(tmp_path / "out.csv")["prediction"]
    np.testing.assert_allclose(written, expected.table["prediction"], rtol=1e-12)


def test_text_in_new_tables_is_missing_however_much_it_is(loans):
    model, new = loans[1], pd.DataFrame({"stadt": ["Köln"], "einkommen": ["unbekannt"]})
    new = new.assign(menge="950", quote="never", alter="5.0")
    gaps = new.assign(einkommen=np.nan, quote=np.nan)
    assert model.predict(new).equals(model.predict(gaps))
    text = new.to_csv(sep=";", index=False).encode()
    assert predict_table(model, io.BytesIO(text)).unread == {"einkommen": 1, "quote": 1}
    with pytest.raises(ValueError, match="must hold finite numbers; got inf"):
        model.predict(new.assign(menge=np.inf))


@pytest.mark.usefixtures("little_room")
def test_targets_and_weights_have_one_mark_in_all_chunks(tmp_path):
    rng = np.random.default_rng(0)
    shown = rng.integers(1_000, 5_000, 80)
    frame = pd.DataFrame({"shop": np.arange(80) % 4, "x": rng.normal(size=80)})
    text = [german(f"{v:,.2f}") if k < 40 else german(f"{v:,}") for k, v in enumerate(shown)]
    written = frame.assign(y=text, w=text)
    for k, part in enumerate((written[:40], written[40:])):
        part.to_parquet(tmp_path / f"{k}.parquet", index=False)
    given = {"task": "shop", "target": "y", "weights": "w", "folds": 2}
    (tmp_path / "numbers").mkdir()
    frame.assign(y=shown, w=shown).to_parquet(tmp_path / "numbers/0.parquet", index=False)
    expected = fit_files(tmp_path / "numbers", **given)
    found = fit_files(tmp_path / "[01].parquet", **given)
    np.testing.assert_allclose(
        found.coefficients["coefficient"], expected.coefficients["coefficient"], rtol=1e-6
    )
    assert (found.encoder.marks, expected.encoder.marks) == ({"y": ",", "w": ","}, {})
    late = written[40:]  # where 1.234 might be 1.234
    assert found.score(late)[1:] == pytest.approx(expected.score(late.assign(y=shown[40:]))[1:])
    table = late.to_csv(index=False).encode()
    assert predict_table(found, io.BytesIO(table)).score == pytest.approx(found.score(late))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_text_among_the_targets_is_refused_in_chunks_too(suffix, tmp_path, monkeypatch):
    frame = shops().assign(sales=lambda table: table["sales"].map("{:.2f} €".format))
    frame.loc[[60, 100], "sales"] = "k.A."
    for k in range(2):
        part = frame[k * len(frame) // 2 : (k + 1) * len(frame) // 2]
        write = part.to_csv if suffix == "csv" else part.to_parquet
        write(tmp_path / f"{k}.{suffix}", index=False)
    given = {"task": "shop", "target": "sales", "features": ["price"]}
    refused = "The target 'sales' holds numbers except for 'k.A.'"
    with pytest.raises(ValueError, match=refused):
        fit_table(frame, **given)
    with pytest.raises(ValueError, match=refused):
        fit_files(tmp_path, **given)
    if suffix == "parquet":  # one that is not in the sample
        look = Survey.look
        monkeypatch.setattr(
            Survey, "look", lambda s, rows, *a: look(s, rows[rows["sales"] != "k.A."], *a)
        )
        with pytest.raises(ValueError, match=rf"1.parquet: {refused}"):
            fit_files(tmp_path, **given)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_tables_keep_their_encoding(encoding):
    text = "stadt;x\nKöln;0,5\n"
    out = io.BytesIO()
    write_table(read_table(io.BytesIO(text.encode(encoding))), out)
    assert out.getvalue() == text.encode(encoding)


@pytest.mark.parametrize(
    ("family", "low", "least"), [("gamma", 0, "above 0"), ("poisson", -1, "at least 0")]
)
def test_families_name_the_targets_they_need(family, low, least):
    with pytest.raises(ValueError, match=f"A {family} model needs targets {least}; 'y' has {low}"):
        target_of(pd.Series([low, 1, 2, 5], name="y"), family=family)


def test_ids_of_groups_are_pointed_out():
    rows = np.arange(300)
    frame = pd.DataFrame(
        {
            "g": rows % 7,
            "y": rows % 11,
            "customer_id": rows * 7 % 100,
            "PCP_ID": rows * 7 % 100,
            "class_id": rows % 12,
            "paid": rows * 7 % 101,
            "year": rows // 3,
            "month": rows % 12,
        }
    )
    settings = Roles(task=("g",), target="y")
    notes = remarks(frame, features_of(frame, settings), settings)
    assert [note.split()[1] for note in notes] == ["year", "customer_id", "PCP_ID"]
    assert "looks like a time: rows were held out at random" in notes[0]
    grouped = replace(settings, group="class_id")
    notes = remarks(frame, features_of(frame, grouped), grouped)
    assert "looks like a time: rows were held out by class_id" in notes[0]
    assert column_of(pd.Series(rows * 7919 % 99991, name="rowId")).reason == "it numbers the rows"
    assert column_of(pd.Series(rows, name="row"), "number").reason == ""


def test_rows_without_a_task_are_counted_apart(tmp_path, capsys):
    frame = shops()
    frame.loc[[3, 9], "shop"], frame.loc[[9, 11, 12], "sales"] = None, np.nan
    frame.to_csv(tmp_path / "shops.csv", index=False)
    given = ["--task", "shop", "--target", "sales", "--out", str(tmp_path / "fit")]
    assert main(["fit", str(tmp_path / "shops.csv"), *given]) == 2
    assert "or drop these rows with option drop_unlabelled." in capsys.readouterr().err
    asked = {"task": "shop", "target": "sales", "features": ["price"], "base": "linear"}
    asked |= {"folds": 2, "family": "gaussian"}
    notes = fit_table(frame, **asked, drop_unlabelled=True).results["notes"]
    assert notes[:2] == ["1 row without a task left out", "3 rows without a target left out"]


def test_new_tasks_are_scored_each():
    frame = shops()
    frame["size"] = frame["shop"].map({"s0": 1, "s1": 5, "s2": 2, "s3": 3})  # constant in a shop
    quick = {"base": "linear", "folds": 2, "family": "gaussian"}
    model = fit_table(frame, task="shop", target="sales", features=["price", "size"], **quick)
    assert {"size"} == set(model.results["constant_within_tasks"])
    new = frame.assign(shop=frame["shop"].replace({"s0": "n0", "s1": "n1"}))
    new.loc[[2, 6], "shop"] = None
    error = (model.predict(new)["prediction"] - new["sales"]) ** 2
    expected = error.groupby(new["shop"].fillna("none")).mean()
    assert len(expected) == 5
    assert model.score(new).score == pytest.approx(expected.mean())
