"""Tables in files: what is read, what is written, what is refused and how."""

import gzip
import io
import sys

import numpy as np
import pandas as pd
import pytest

from crosslearning.tables import read_table, write_table

FRAME = pd.DataFrame({"code": ["007", "n 1"], "x": [0.5, np.nan], "n": [1, 2]})
TEXTS = {
    "comma": "code,x,n\n007,0.5,1\nn 1,,2\n",
    "semicolon and decimal comma": "code;x;n\n007;0,5;1\nn 1;;2\n",
    "semicolon and decimal point": "code;x;n\n007;0.5;1\nn 1;;2\n",
    "tab": "code\tx\tn\n007\t0.5\t1\nn 1\tNA\t2\n",
    "bar": "code|x|n\n007|0.5|1\nn 1||2\n",
    "quotes": '"code","x","n"\n"007","0.5","1"\n"n 1","","2"\n',
    "byte order mark": "\ufeffcode,x,n\n007,0.5,1\nn 1,,2\n",
    "windows": "code;x;n\r\n007;0,5;1\r\nn 1;;2\r\n",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
@pytest.mark.parametrize("packed", [False, True])
def test_text_of_many_kinds_is_the_same_table(text, packed, tmp_path):
    content = gzip.compress(text.encode()) if packed else text.encode()
    path = tmp_path / "table"
    path.write_bytes(content)
    for source in (path, str(path), io.BytesIO(content)):
        pd.testing.assert_frame_equal(read_table(source), FRAME, check_dtype=False)


def test_columns_asked_for_stay_text():
    text = b"code,x\n007,1\n008,2\n"
    assert read_table(io.BytesIO(text), text=["code", "absent"])["code"].tolist() == ["007", "008"]
    assert read_table(io.BytesIO(text))["code"].tolist() == ["007", "008"]
    assert read_table(io.BytesIO(text.replace(b"00", b"")))["code"].tolist() == [7, 8]


def test_one_and_zero_one_are_two_codes():
    table = read_table(io.BytesIO(b"code,x\n1,1\n01,2\n,3\n"))
    assert table["code"].tolist()[:2] == ["1", "01"]
    assert table["code"].isna().tolist() == [False, False, True]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
def test_encodings(encoding):
    table = read_table(io.BytesIO("name;x\nJosé;1,5\n".encode(encoding)))
    assert table.to_dict("records") == [{"name": "José", "x": 1.5}]


def test_marks_of_missing_values():
    table = read_table(io.BytesIO(b"a,b,c,d,e\n1,1,1,1,x\n?,.,NA,-,y\n"))
    assert table.iloc[1, :4].isna().all()
    assert table["a"].dtype == float


def test_blanks_after_a_separator_do_not_matter():
    assert read_table(io.BytesIO(b"a, b\n1, 2\n")).to_dict("list") == {"a": [1], "b": [2]}


def test_a_named_index_becomes_columns(tmp_path):
    FRAME.set_index("code").to_parquet(tmp_path / "t.parquet")
    assert list(read_table(tmp_path / "t.parquet")) == ["code", "x", "n"]
    FRAME.set_axis([5, 3]).to_parquet(tmp_path / "t.parquet")
    assert list(read_table(tmp_path / "t.parquet").index) == [5, 3]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b"a,b\n", "has a header but no rows"),
        (b"a,b\n1,2,3\n", "rows have more fields than its header"),
        (b"a,b\n1,2\n1,2,3\n", "Expected 2 fields in line 3, saw 3"),
        (b"a,b\n1,\xe9\0\n", "it is neither text nor"),
        (b"g,x,g\n1,2,3\n", "two columns have the name 'g'. Rename one of them"),
        (b"PK\x03\x04 something", "it is neither text nor an .xlsx file. Save it as CSV"),
        (b"PAR1 something", "Cannot read"),
        (b"\x1f\x8b something", "Cannot read"),
    ],
)
def test_what_is_no_table_is_refused_with_its_name(content, message, tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises((ValueError, OSError), match=message) as caught:
        read_table(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(OSError, match=r"Cannot read .*none.csv: No such file or directory. Check"):
        read_table(tmp_path / "none.csv")


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "t.tsv.gz", "t.parquet"])
def test_what_is_written_is_read_again(name, tmp_path):
    write_table(FRAME, tmp_path / name)
    pd.testing.assert_frame_equal(read_table(tmp_path / name, text=["code"]), FRAME)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_an_index_that_says_something_is_written():
    stream = io.BytesIO()
    write_table(FRAME[["n"]].set_axis(["a", "b"]), stream)
    assert stream.getvalue() == b",n\na,1\nb,2\n"


@pytest.mark.parametrize("name", ["t", "t.xls", "t.gz", "t.parquet.gz"])
def test_a_suffix_that_names_no_format_is_refused(name, tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.csv, .* got "):
        write_table(FRAME, tmp_path / name)


def test_a_failing_write_says_where(tmp_path):
    with pytest.raises(OSError, match=r"Cannot write .*none.t.csv: No such .*Choose another file"):
        write_table(FRAME, tmp_path / "none" / "t.csv")


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    FRAME.to_parquet(tmp_path / "t.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'needs pyarrow.*pip install "crosslearning\[app\]"'):
        read_table(tmp_path / "t.parquet")
    with pytest.raises(ImportError, match=r'needs pyarrow.*pip install "crosslearning\[app\]"'):
        write_table(FRAME, tmp_path / "u.parquet")


def test_excel_files_come_back_as_they_were(tmp_path):
    frame = pd.DataFrame({"g": ["a", "b"], "x": [1.5, None], "code": ["01", "2"], "n": [3, 4]})
    write_table(frame, tmp_path / "t.xlsx")
    found = read_table(tmp_path / "t.xlsx")
    pd.testing.assert_frame_equal(found, frame, check_dtype=False)
    assert found["n"].dtype.kind == "i"
    assert read_table(tmp_path / "t.xlsx", text=["n", "absent"])["n"].tolist() == ["3", "4"]


def test_predictions_are_written_in_the_dialect_of_the_table():
    table = read_table(io.BytesIO(b"school;ses\nnorth;0,5\n"))
    table["prediction"] = [1.25]
    out = io.BytesIO()
    write_table(table, out)
    assert out.getvalue() == b"school;ses;prediction\nnorth;0,5;1,25\n"
