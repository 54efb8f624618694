"""The page itself: whole, escaped, self-contained."""

import json
import re
from html.parser import HTMLParser

from tailproof.report.blocks import Headline
from tailproof.report.html import Page

VOID = {"meta", "link", "br", "img", "line", "circle", "rect", "polyline", "polygon"}


class Outline(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.open, self.wrong, self.links = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        given = dict(attributes)
        self.links += [given[key] for key in ("src", "href") if key in given]
        self.wrong += [key for key in given if key.startswith("on") or key == "style"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, _):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def outline(text):
    parser = Outline()
    parser.feed(text)
    return parser


def test_whatever_comes_from_a_log_is_escaped(page):
    _, path, _ = page
    found = outline(path.read_text())
    assert found.tags.count("script") == 2  # the numbers and our own
    assert "img" not in found.tags
    assert found.wrong == []
    assert found.open == []


def test_nothing_is_fetched(page):
    _, path, _ = page
    text = path.read_text()
    assert all(link.startswith("#") for link in outline(text).links)
    assert not re.search(r"@import|url\(", text)


def test_a_browser_is_told_to_run_our_script_only(page):
    _, path, _ = page
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', path.read_text())[1]
    assert "default-src 'none'" in policy
    assert policy.count("sha256-") == 2
    assert "unsafe" not in policy


def test_the_numbers_for_programs_are_inside(page):
    _, path, estimate = page
    inside = re.search(r'id="record">(.*?)</script>', path.read_text(), re.DOTALL)[1]
    assert json.loads(inside)["value"] == estimate.value


def test_an_empty_page_is_a_page():
    found = outline(Page(title="<i>", answer=(Headline("a & b"),)).html())
    assert "i" not in found.tags
    assert found.open == []
