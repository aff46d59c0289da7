"""Reports in a real browser."""

import re

import numpy as np
import pandas as pd
import pytest

import browser
from reproduction import page, work
from reproduction.claims import CLAIMS
from vbsvm import VBSVC, LaplaceZero, Model

HOSTILE = "<script>window.hacked=1</script>"
IMAGE = '"><img src=x onerror="window.hacked=2">'


@pytest.fixture(scope="module")
def driver():
    with browser.open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("reports"), np.random.default_rng(0)
    data = pd.DataFrame(rng.normal(size=(240, 5)), columns=["age", "dose", "much too long a name " * 5, HOSTILE, IMAGE])
    data["g"] = [f"</title>{k}" for k in rng.integers(0, 12, 240)]
    data["y"] = np.where(data["age"] - data["dose"] + rng.logistic(size=240) > 0, HOSTILE, "no")
    data.loc[::6, "dose"] = np.nan
    fit = Model("y ~ . + s(age) + (1 | g)", data.drop(columns=IMAGE)).fit()
    X = data.drop(columns=["y", "g"]).fillna(0.0)
    clf = VBSVC(LaplaceZero(0.2)).fit(X, data["y"])
    return {
        "model": fit.report(folder / "model.html", data, title=f"A {HOSTILE} title"),
        "estimator": clf.report(folder / "estimator.html", X, data["y"]),
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [browser.PHONE, browser.TABLET, browser.DESKTOP])
@pytest.mark.parametrize("name", ["model", "estimator"])
def test_a_report_is_quiet_and_fits_its_window(driver, paths, name, width, scheme):
    with driver.page(paths[name], width=width, scheme=scheme) as page:
        assert page.complaints == []
        assert page.network == []
        assert not page.scrolls_sideways()
        assert page.raw.locator("svg").count() >= 4
        assert [level for level, _ in page.headings()].count(1) == 1


def test_names_from_the_data_do_nothing(driver, paths):
    for path in paths.values():
        with driver.page(path) as page:
            assert page.raw.evaluate("window.hacked") is None
            assert page.raw.locator("img").count() == 0
            assert page.raw.locator("script").count() == 1
            assert HOSTILE in page.raw.inner_text("body")
            assert any(HOSTILE in text for text in page.raw.locator("svg text").all_text_contents())


def test_a_page_that_misbehaves_is_noticed(driver, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text("<body><div style='width:3000px'>x</div><script>console.error('no'); boom()</script>")
    with driver.page(bad) as page:
        assert page.scrolls_sideways()
        assert "no" in page.complaints
        assert any("boom" in one for one in page.complaints)


def test_tables_sort_by_number_and_back_from_mouse_and_keyboard(driver, paths):
    with driver.page(paths["estimator"]) as page:
        selector = ".wide table.sortable"
        table = page.raw.locator(selector)
        head = table.locator("thead th").nth(1)
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == "ascending"
        script = "rows => rows.map(row => Number(row.cells[1].dataset.value))"
        values = page.raw.eval_on_selector_all(f"{selector} tbody tr", script)
        assert values == sorted(values)
        assert len(values) == 6
        head.locator("button").focus()
        page.raw.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == "descending"
        values = page.raw.eval_on_selector_all(f"{selector} tbody tr", script)
        assert values == sorted(values, reverse=True)
        table.locator("thead th").nth(0).locator("button").click()
        names = page.column(selector, 0)
        assert names.index("age") < names.index("dose")
        assert head.get_attribute("aria-sort") == "none"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["model", "estimator"])
def test_text_stands_out_in_both_schemes(driver, paths, name, scheme):
    with driver.page(paths[name], scheme=scheme) as page:
        for selector in ("p", "figcaption", ".caption", "a", "svg"):
            assert page.contrast(selector) > 4.5, selector
        inks = page.raw.eval_on_selector_all("svg text", "all => all.map(one => getComputedStyle(one).fill)")
        assert set(inks) == {page.raw.evaluate("getComputedStyle(document.body).color")}
        blue = page.raw.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--blue')")
        assert re.fullmatch(r"#\w{6}", blue.strip())


def test_on_a_phone_wide_tables_say_that_they_scroll_and_small_ones_are_stacked(driver, paths):
    with driver.page(paths["estimator"], width=browser.PHONE) as page:
        assert page.raw.eval_on_selector_all(".box", "all => all.every(one => one.tabIndex === 0)")
        scrolls = (
            "all => all.every(one => one.querySelector('.box').scrollWidth > one.querySelector('.box').clientWidth)"
        )
        assert page.raw.eval_on_selector_all(".wide", scrolls)
        assert page.raw.locator(".wide .hint").first.is_visible()
        assert page.raw.eval_on_selector_all(
            ".small .box", "all => all.every(one => one.scrollWidth <= one.clientWidth)"
        )
        heads = page.raw.eval_on_selector_all(
            ".small td[data-head]", "all => all.map(one => getComputedStyle(one, '::before').content)"
        )
        assert '"error rate"' in heads
        assert not page.raw.locator(".small .hint").first.is_visible()
    with driver.page(paths["estimator"], width=browser.DESKTOP) as page:
        assert page.raw.locator(".hint:visible").count() == 0
        sides = "all => all.map(one => one.getBoundingClientRect().left)"
        words, figure = page.raw.eval_on_selector_all(".pair:first-of-type > *", sides)[:2]
        assert figure > words + 300


@pytest.mark.parametrize("width", [browser.PHONE, browser.TABLET, browser.DESKTOP])
@pytest.mark.parametrize("name", ["model", "estimator"])
def test_the_text_of_figures_is_large_enough_to_be_read(driver, paths, name, width):
    with driver.page(paths[name], width=width) as page:
        heights = page.raw.eval_on_selector_all(
            "svg",
            "all => all.map(one => one.getBoundingClientRect().width / one.viewBox.baseVal.width * 7)",
        )
        assert min(heights) > 8  # pixels of letters of 7 points, the smallest in use


def test_a_page_on_paper_has_no_navigation_and_no_scroll_boxes(driver, paths):
    with driver.page(paths["model"], scheme="dark") as page:
        page.raw.emulate_media(media="print")
        assert not page.raw.locator("nav").is_visible()
        assert page.raw.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
        assert len(page.raw.pdf()) > 10_000
    with driver.page(paths["model"], width=browser.PHONE) as page:
        assert page.raw.locator(".hint:visible").count() > 0
        page.raw.emulate_media(media="print")
        assert page.raw.locator(".hint:visible").count() == 0


@pytest.fixture(scope="module")
def reproduction(tmp_path_factory):
    """A page with every figure and table, from made-up results."""
    folder, rng = tmp_path_factory.mktemp("reproduction"), np.random.default_rng(0)
    names, methods, settings = work.EXPERIMENTS, work.METHODS, work.Settings(data_sets=5, splits=5)
    jobs = work.jobs_of(names, settings, methods) + work.timed_jobs(names, methods)
    results = {}
    for job in jobs:
        chances = tuple(rng.random(57)) if job.experiment == "spam" else ()
        error = None if chances else float(rng.uniform(0.1, 0.3))
        results[job] = work.Result(job, error, float(rng.uniform(1, 100)), chances, chances)
    page.write(folder, results, work.Settings(), {})
    return folder / "index.html"


@pytest.mark.parametrize(("width", "scheme"), [(browser.PHONE, "dark"), (browser.DESKTOP, "light")])
def test_the_page_of_the_reproduction(driver, reproduction, width, scheme):
    with driver.page(reproduction, width=width, scheme=scheme) as opened:
        assert opened.complaints == []
        assert opened.network == []
        assert not opened.scrolls_sideways()
        assert opened.raw.locator("figure svg").count() == 4
        headings = [text for _, text in opened.headings()]
        assert all(word in text for word, text in zip(("again", "Claims", "simulated"), headings, strict=False))
        assert headings[-1] == "Decisions, and departures from the paper"
        opened.raw.locator("table.sortable").first.locator("button", has_text="Outcome").click()
        outcomes = opened.column("#part-1 table.sortable", 2)
        assert len(outcomes) == len(CLAIMS)
        assert outcomes == sorted(outcomes)
