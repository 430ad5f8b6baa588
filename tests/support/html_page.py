"""A report read back from its file: elements, words and charts."""

import json
import re
from html.parser import HTMLParser

from crosslearning.report import write
from tests.support.report_results import save


def _one_space(text):
    return re.sub(r"\s+", " ", text)


class Page(HTMLParser):
    """Elements, words and charts of a page."""

    def __init__(self, path):
        super().__init__()
        self.size = path.stat().st_size
        self.elements, self.words, self.charts, self.scripts = [], [], [], []
        self.inside = None
        self.feed(path.read_text(encoding="utf-8"))
        self.text = _one_space(" ".join(self.words))

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.inside = tag if tag in ("script", "style") else None
        if tag == "script":
            self.scripts.append(dict(attrs).get("type"))

    def handle_endtag(self, _):
        self.inside = None

    def handle_data(self, data):
        if self.inside == "script" and self.scripts[-1] == "application/json":
            content = json.loads(data)
            if "$schema" in content:
                self.charts.append(content)
        elif self.inside is None:
            self.words.append(data)

    def __contains__(self, words):
        return _one_space(words) in self.text

    def index(self, words):
        return self.text.index(_one_space(words))

    def charts_of(self, description):
        return [chart for chart in self.charts if description in chart["description"]]


def page_of(folder, content):
    """Write the report on results, and read it."""
    return Page(write(save(folder, content)))


def values(chart):
    """All rows of a chart, whatever layer they belong to."""
    return [row for rows in chart["datasets"].values() for row in rows]
