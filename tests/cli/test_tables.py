"""Tables in a terminal, or a pipe, of 80 columns or fewer."""

import pytest

from crosslearning.cli.common import print_table

OFFICE_HOME = ("Art", "Clipart", "Product", "Real World")


@pytest.fixture
def printed(capsys, monkeypatch):
    def lines(columns, rows, width=80):
        monkeypatch.setenv("COLUMNS", str(width))
        print_table(columns, rows)
        return [line.rstrip() for line in capsys.readouterr().out.splitlines()]

    return lines


@pytest.mark.parametrize("domains", [OFFICE_HOME, [f"domain_{k}" for k in range(4)]])
@pytest.mark.parametrize("width", [80, 60])
def test_a_table_of_radii_keeps_every_number_in_a_piece(printed, domains, width):
    columns = ("ε", "validation", "test", *domains, "distance")
    rows = [
        (radius, "65.1 ± 1.2", "64.3 ± 1.1", "61.2", "58.9 *", "70.3", "63.4 *", "0.123")
        for radius in ("0", "0.123", "∞")
    ]
    lines = printed(columns, rows, width)
    for line, row in zip(lines[-3:], rows, strict=True):
        assert line.split("  ")[0] == row[0]
        assert line.split() == " ".join(row).split()
    if width == 80:
        assert max(map(len, lines)) <= width
        assert all(word in " ".join(lines) for name in domains for word in name.split())


def test_names_are_folded_after_16_characters_and_not_before(printed):
    name = "a_rather_long_name_of_a_column"
    titles = ("coefficients of\nthe centre", "\nestimate", "95 %\ninterval")
    titles = (*titles, *(f"sd by\nthe_level_named_{k}" for k in range(3)))
    lines = printed(titles, [(name, "-12,345.6", "-12,345 to 12,345", "1.23", "1.23", "12.3")])
    first = next(k for k, line in enumerate(lines) if line.startswith(name[:16]))
    assert "".join(line.split()[0] for line in lines[first:]) == name
    assert "-12,345 to 12,345" in lines[first]
    assert max(map(len, lines)) <= 80


def test_names_are_folded_before_the_words_of_titles(printed):
    titles = ("coefficients of\nthe centre", "\nestimate", "95 %\ninterval", "sd by\nNeighborhood")
    lines = printed(titles, [("a_name_" * 8, "-12,345.6", "-12,345 to 12,345", "1.23")], 66)
    assert lines[1].split() == ["the", "centre", "estimate", "interval", "Neighborhood"]
    assert max(map(len, lines)) <= 66


def test_what_cannot_be_narrower_is_not_cut(printed):
    row = ("name", *(f"{k}.2345678 ± 0.1" for k in range(8)))
    lines = printed([f"c{k}" for k in range(9)], [row])
    assert lines[-1].split() == " ".join(row).split()


def test_a_table_that_fits_is_not_folded(printed):
    assert printed(("", "R²", "worse by"), [("[bold] name", "0.5", "chosen")]) == [
        "               R²   worse by",
        "[bold] name   0.5     chosen",
    ]
