"""A page as a reader without a browser sees it: its headings, texts and tags, which must be sound."""

import html
import itertools
import re
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Outline(HTMLParser):
    """Headings, ids, attributes and texts of a page; unbalanced tags are an error."""

    def __init__(self, text):
        super().__init__()
        self.raw = text
        self.open, self.headings, self.ids, self.tags, self.text = [], [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and re.fullmatch(r"h\d", self.open[-1]):
            self.headings.append((int(self.open[-1][1]), data))
        if "style" not in self.open and "script" not in self.open:
            self.text.append(data)

    @property
    def figures(self):
        """The key figures, each before what it is."""
        pairs = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", self.raw)
        return [f"{value} {html.unescape(meaning)}" for meaning, value in pairs]

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())

    def named(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


def outline(path):
    page = Outline(path.read_text(encoding="utf-8"))
    assert page.headings[0][0] == 1
    levels = [level for level, _ in page.headings]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert len(set(page.ids)) == len(page.ids)
    for svg in page.named("svg"):
        assert svg["role"] == "img"
        assert svg["aria-labelledby"] in page.ids
    targets = [attrs["href"][1:] for tag in ("a", "use") for attrs in page.named(tag)]
    targets += re.findall(r"url\(#([^)]+)\)", path.read_text(encoding="utf-8"))
    assert set(targets) <= set(page.ids)
    assert all("scope" in th for th in page.named("th"))
    assert page.named("html") == [{"lang": "en"}]
    assert not re.findall(r"(?:src|href)=\"(?!#|data:)", path.read_text(encoding="utf-8"))
    return page
