"""The report in a real browser: it draws, answers the pointer, sorts, and asks nobody."""

import json
import shutil

import pytest
from PIL import Image

from crosslearning.paper.gaussian import experiment as gaussian
from crosslearning.report import write
from tests.report_results import images_results, save, table_results

webdriver = pytest.importorskip("selenium.webdriver")
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.wait import WebDriverWait  # noqa: E402

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (BROWSER and DRIVER), reason="needs chromium and chromedriver (Debian: chromium-driver)"
)

HOSTILE = "</script><script>window.hacked = true</script><img src=x onerror='window.hacked = true'>"


@pytest.fixture(scope="module")
def driver():
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield browser
    browser.quit()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A page with every kind of chapter, and with labels that try to break out."""
    folder = tmp_path_factory.mktemp("report")
    gaussian.run(gaussian.GaussianConfig(realizations=50), folder / "gaussian")
    content = table_results([HOSTILE, *range(101, 160)], features=("age", HOSTILE))
    save(folder / "table", {**content, "title": HOSTILE})
    save(folder / "images", images_results())
    Image.new("RGB", (600, 300)).save(folder / "images" / "contact_sheet.png")
    return write(folder).resolve().as_uri()


@pytest.fixture(scope="module")
def page(driver, address):
    show(driver, address)
    return driver


def show(driver, address, width=1100, scheme="light"):
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )
    driver.get(address)
    WebDriverWait(driver, 15).until(
        lambda browser: browser.find_elements(By.CSS_SELECTOR, "body.drawn")
    )


def chart(driver, caption):
    (found,) = [
        figure
        for figure in driver.find_elements(By.CSS_SELECTOR, "figure.chart")
        if figure.text.startswith(caption)
    ]
    return found


def test_it_loads_without_an_error_and_without_the_network(page, address):
    assert page.get_log("browser") == []
    assert page.execute_script("return window.hacked") is None
    messages = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    requested = {
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    }
    assert {url for url in requested if not url.startswith("data:")} == {address}


def test_every_chart_is_drawn(page):
    figures = page.find_elements(By.CSS_SELECTOR, "figure.chart")
    assert len(figures) == 14
    for figure in figures:
        (drawing,) = figure.find_elements(By.CSS_SELECTOR, "svg.marks")
        assert drawing.size["width"] > 200
        assert drawing.find_elements(By.CSS_SELECTOR, "path, line, rect")


@pytest.mark.parametrize(
    ("caption", "mark", "words"),
    [
        ("Mean squared error (lower is better) by ε", ".mark-symbol path", "mean squared error"),
        ("The 20 that gain most", ".mark-symbol path", "gain over separate"),
        ("Test accuracy of every domain", ".mark-rect path", "test accuracy"),
    ],
)
def test_hovering_shows_values(page, caption, mark, words):
    target = chart(page, caption).find_elements(By.CSS_SELECTOR, mark)[0]
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", target)
    webdriver.ActionChains(page).move_to_element(target).perform()
    tooltip = WebDriverWait(page, 5).until(
        lambda browser: browser.find_elements(By.CSS_SELECTOR, "#vg-tooltip-element.visible")
    )[0]
    assert words in tooltip.text


def test_tables_are_sorted_by_pointer_and_by_key(page):
    table = page.find_element(By.CSS_SELECTOR, "[aria-label^=Scores] table")

    def column(k):
        cells = table.find_elements(By.CSS_SELECTOR, f"tbody tr > :nth-child({k})")
        return [float(cell.get_attribute("data-value")) for cell in cells]

    heading = table.find_element(By.CSS_SELECTOR, "th:nth-child(2)")
    button = heading.find_element(By.TAG_NAME, "button")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
    button.click()
    assert heading.get_attribute("aria-sort") == "descending"
    assert column(2) == sorted(column(2), reverse=True)
    button.send_keys(Keys.ENTER)
    assert heading.get_attribute("aria-sort") == "ascending"
    assert column(2) == sorted(column(2))
    assert len(table.find_elements(By.CSS_SELECTOR, "[aria-sort]")) == 1

    table.find_element(By.CSS_SELECTOR, "th:nth-child(1) button").click()
    labels = [cell.text for cell in table.find_elements(By.CSS_SELECTOR, "tbody th")]
    assert labels == [HOSTILE, *map(str, range(101, 160))]  # words before numbers


def test_charts_follow_the_colour_scheme(driver, address):
    colours = set()
    for scheme in ("light", "dark"):
        show(driver, address, scheme=scheme)
        text = driver.find_element(By.CSS_SELECTOR, "svg.marks .role-axis-label text")
        background = driver.find_element(By.TAG_NAME, "body")
        colours.add((text.value_of_css_property("fill"), background.value_of_css_property("color")))
    assert len({text for text, _ in colours}) == len({body for _, body in colours}) == 2


def test_it_fits_a_phone(driver, address):
    show(driver, address, width=390)
    assert driver.execute_script("return document.documentElement.scrollWidth") == 390
    for figure in driver.find_elements(By.CSS_SELECTOR, "figure.chart:not(.wide)"):
        drawing = figure.find_element(By.CSS_SELECTOR, "svg.marks")
        assert drawing.size["width"] <= 360
    assert driver.get_log("browser") == []
