"""Pages in a real browser: what they log, what they ask the network for, how they scroll and sort."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PHONE, TABLET, DESKTOP = 390, 800, 1400


@contextmanager
def open_browser() -> Iterator["Browser"]:
    """Start the browser of this machine; without one, or without playwright, the test is skipped."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"no browser is installed: none of {', '.join(NAMES)}")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=ARGUMENTS)
        try:
            yield Browser(browser)
        finally:
            browser.close()


class Browser:
    """Opens pages."""

    def __init__(self, browser) -> None:
        self._browser = browser

    @contextmanager
    def page(self, path: Path, *, width: int = DESKTOP, scheme: str = "light") -> Iterator["Page"]:
        """Open a file in a window of this width, with the reader's choice of colours."""
        context = self._browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        try:
            raw = context.new_page()
            seen = Page(raw)
            raw.on("console", lambda message: seen.complaints.append(message.text))
            raw.on("pageerror", lambda error: seen.complaints.append(str(error)))
            raw.on("request", lambda request: seen.requests.append(request.url))
            raw.goto(Path(path).resolve().as_uri())
            yield seen
        finally:
            context.close()


@dataclass
class Page:
    """An open page, and what it has complained about and asked for so far."""

    raw: object
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    @property
    def network(self) -> list[str]:
        """Addresses that were asked for, beside the file itself."""
        return [url for url in self.requests if not url.startswith(("file:", "data:"))]

    def headings(self) -> list[tuple[int, str]]:
        """Level and text of every heading, in order."""
        script = "all => all.map(one => [Number(one.tagName[1]), one.textContent])"
        return [tuple(pair) for pair in self.raw.eval_on_selector_all("h1,h2,h3,h4,h5,h6", script)]

    def scrolls_sideways(self) -> bool:
        """Whether the page as a whole is wider than its window."""
        return self.raw.evaluate("document.documentElement.scrollWidth > window.innerWidth")

    def contrast(self, selector: str) -> float:
        """Contrast of an element's text with the page, as the accessibility guidelines count it."""
        colours = self.raw.evaluate(
            """selector => [getComputedStyle(document.querySelector(selector)).color,
                            getComputedStyle(document.documentElement).backgroundColor]""",
            selector,
        )
        light, dark = sorted((_luminance(colour) for colour in colours), reverse=True)
        return (light + 0.05) / (dark + 0.05)

    def column(self, table: str, k: int) -> list[str]:
        """Texts of one column of a table."""
        script = f"rows => rows.map(row => row.cells[{k}].textContent.trim())"
        return self.raw.eval_on_selector_all(f"{table} tbody tr", script)


def _luminance(colour: str) -> float:
    parts = [float(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
