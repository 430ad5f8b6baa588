"""Reports on results that the library made, for tests that only read them."""

import pytest

from crosslearning.report import write
from tests.support.html_page import Page, page_of
from tests.support.report_results import contact_sheet, images_results, save, table_results


@pytest.fixture(scope="session")
def table_page(tmp_path_factory):
    return page_of(tmp_path_factory.mktemp("table"), table_results())


@pytest.fixture(scope="session")
def images_page(tmp_path_factory):
    folder = save(tmp_path_factory.mktemp("images"), images_results())
    (folder / "contact_sheet.png").write_bytes(contact_sheet())
    return Page(write(folder))
