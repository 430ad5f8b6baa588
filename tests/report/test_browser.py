"""The report in a real browser: it draws, answers the pointer, sorts, and asks nobody."""

import json
import shutil

import pytest

from crosslearning.paper.gaussian import experiment as gaussian
from crosslearning.report import write
from tests.support.report_results import contact_sheet, images_results, save, table_results

webdriver = pytest.importorskip("selenium.webdriver")
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.wait import WebDriverWait  # noqa: E402

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (BROWSER and DRIVER), reason="needs chromium and chromedriver (Debian: chromium-driver)"
    ),
]

HOSTILE = "</script><script>window.hacked = true</script><img src=x onerror='window.hacked = true'>"
LONG = "one pooled model with a level for every shop"


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
    content = table_results() | {"title": HOSTILE}
    content["tasks"][0]["task"] = HOSTILE
    content["coefficients"]["features"][1] = content["effects"][1]["feature"] = HOSTILE
    far = content["models"][-1]
    far["label"] = LONG
    save(folder / "table", content)
    save(folder / "images", images_results())
    (folder / "images" / "contact_sheet.png").write_bytes(contact_sheet())
    return write(folder).resolve().as_uri()


@pytest.fixture
def page(driver, address):
    """The page as it is on a desk, whatever other tests did before, in whatever order."""
    if getattr(driver, "shown", None) != (address, 1100, "light"):
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
    done = f"return document.body.classList.contains('drawn') && window.innerWidth === {width}"
    WebDriverWait(driver, 15).until(lambda browser: browser.execute_script(done))
    driver.shown = (address, width, scheme)


def texts(driver, selector):
    """Text of all elements, in one question to the browser."""
    script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
    return driver.execute_script(script, selector)


def hovered(driver, target):
    """What the page says of an element under the pointer."""
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", target)
    webdriver.ActionChains(driver, duration=0).move_to_element(target).perform()
    tooltip = WebDriverWait(driver, 5, 0.05).until(
        lambda browser: browser.find_elements(By.CSS_SELECTOR, "#vg-tooltip-element.visible")
    )
    return tooltip[0].text


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
    sizes = page.execute_script(
        "return [...document.querySelectorAll('figure.chart')].map((figure) => "
        "[...figure.querySelectorAll('svg.marks')].map((drawing) => "
        "[drawing.clientWidth, "
        "drawing.querySelectorAll('.mark-group [role=graphics-symbol]').length]))"
    )
    assert len(sizes) == 13
    for ((width, marks),) in sizes:
        assert width > 200
        assert marks > 0


@pytest.mark.parametrize(
    ("caption", "mark", "words"),
    [
        ("Test accuracy by ε; ∞ (separate)", ".mark-symbol[role] path[aria-label*=ε]", "low"),
        (
            "Test accuracy by ε; ∞ (separate)",
            ".mark-symbol path[aria-label*=FedPer]",
            "test accuracy",
        ),
        ("How often the predicted category", ".mark-symbol path", "at least"),
        ("Gain over", ".mark-symbol path", "gain"),
        ("Mean squared error of every model", ".mark-symbol path", "seconds"),
    ],
)
def test_hovering_shows_values(page, caption, mark, words):
    figure = page.execute_script(
        "return [...document.querySelectorAll('figure.chart')].find((figure) => "
        "figure.querySelector('figcaption')?.textContent.startsWith(arguments[0]))",
        caption,
    )
    assert words in hovered(page, figure.find_element(By.CSS_SELECTOR, mark))


def test_long_names_are_shown_in_full(page):
    name = page.find_element(By.XPATH, "//*[name()='text'][starts-with(., 'one pooled model w')]")
    lines = [line.text for line in name.find_elements(By.CSS_SELECTOR, "tspan")]
    assert " ".join(lines) == LONG
    assert len(lines) == 2
    assert hovered(page, name).split() == LONG.split()


def test_contents_lead_to_their_sections(page):
    link = page.find_element(By.LINK_TEXT, "How much tasks differ")
    link.click()
    target = page.execute_script("return document.querySelector(':target').textContent")
    assert target == "How much tasks differ"


def test_tables_are_sorted_by_pointer_and_by_key(page):
    table = page.find_element(By.CSS_SELECTOR, "[aria-label^=Scores] table")

    def column(k):
        script = "return [...arguments[0].tBodies[0].rows].map((r) => r.cells[arguments[1]].dataset"
        return [float(cell["value"]) for cell in page.execute_script(script + ")", table, k - 1)]

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
    labels = texts(page, "[aria-label^=Scores] tbody th")
    assert labels == [HOSTILE, *map(str, range(101, 145))]  # words before numbers


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
    widest = driver.execute_script(
        "return Math.max(...[...document.querySelectorAll('figure.chart:not(.wide) svg.marks')]"
        ".map((drawing) => drawing.clientWidth))"
    )
    assert 200 < widest <= 360
    assert driver.get_log("browser") == []
