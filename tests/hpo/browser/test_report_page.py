"""The report in a real browser, offline, in a wide and a narrow window."""

import re

import pytest
from selenium.webdriver.support.ui import WebDriverWait

from hpo.report.wording import number

CHARTS = ("equity", "drawdown", "seeds", "luck", "epochs", "importance", "parallel", "slice-0")
SIZES = ((1280, 800), (390, 844))

DRAWN = "return arguments[0].every(id => document.querySelector(`#${id} .main-svg`))"
# Elements whose text is wider or higher than they are, where nothing scrolls.
CUT = """
return [...document.querySelectorAll('section *')]
  .filter(e => !e.closest('.scroll, .tall, pre, .chart')
    && e.clientWidth && (e.scrollWidth > e.clientWidth + 1))
  .map(e => e.tagName + ' ' + e.textContent.slice(0, 60))
"""
# Tables that must fit every window, so that nobody has to scroll them sideways.
WIDE = """
return [...document.querySelectorAll('.compare, .costs, .cards, .facts, .notes')]
  .filter(e => e.getBoundingClientRect().right > e.closest('section').getBoundingClientRect().right - 9)
  .map(e => e.className)
"""
# Pairs of leaves of the verdict that lie over each other.
OVERLAPS = """
const leaves = [...document.querySelectorAll('section:first-of-type *')].filter(e => !e.children.length
  && e.textContent.trim() && getComputedStyle(e).display !== 'inline');
const box = e => e.getBoundingClientRect(), found = [];
leaves.forEach((a, i) => leaves.slice(i + 1).forEach(b => { const p = box(a), q = box(b);
  if (Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1
    && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 1)
    found.push(a.textContent + ' | ' + b.textContent); }));
return found
"""
# Words in a chart that reach beyond it, or lie over another word of the same kind.
CHART_WORDS = """
const found = [];
for (const chart of document.querySelectorAll('.js-plotly-plot')) {
  const outer = chart.getBoundingClientRect();
  for (const kind of ['.legendtext', '.xtick text', '.ytick text', '.xtitle, .ytitle']) {
    const words = [...chart.querySelectorAll(kind)].map(e => [e.textContent, e.getBoundingClientRect()]);
    words.forEach(([text, p], i) => {
      if (p.left < outer.left - 1 || p.right > outer.right + 1 || p.top < outer.top - 1
        || p.bottom > outer.bottom + 1) found.push(chart.id + ': cut: ' + text);
      words.slice(i + 1).forEach(([other, q]) => {
        if (Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1
          && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 2)
          found.push(chart.id + ': ' + text + ' over ' + other); });
    });
  }
}
return found
"""


@pytest.fixture(params=SIZES, ids=lambda size: f"{size[0]} pixels")
def page(request, browser, shown):
    """The report, opened from the disk without a network."""
    width, height = request.param
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.execute_cdp_cmd("Network.enable", {})
    browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["http://*", "https://*"]})
    browser.get_log("browser")
    browser.get(shown.report.as_uri())
    WebDriverWait(browser, 20).until(lambda each: each.execute_script(DRAWN, CHARTS))
    yield browser
    browser.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})


def words_of(page, selector):
    return " ".join(
        page.execute_script("return document.querySelector(arguments[0]).innerText", selector).split()
    )


def test_the_first_screen_says_score_error_trials_luck_and_buy_and_hold(page, shown):
    best = shown.study.best_trial
    verdict = words_of(page, "section")
    error = best.user_attrs["score"]["standard_error"]
    assert f"{number(best.value)} ± {number(error)}" in verdict
    assert f"number {best.number}" in verdict
    assert "13 trials were started" in verdict
    assert "Is it luck?" in verdict
    assert re.search(r"Trials started 13 ", verdict)
    assert re.search(r"Chance that it is luck (> )?\d+\.\d %", verdict)
    assert re.search(r"Buy and hold \N{MINUS SIGN}?\d+\.\d\d same bars: ", verdict)
    assert re.search(r"95 % interval \N{MINUS SIGN}?\d+\.\d\d to \d", verdict)
    bottom = page.execute_script("return document.querySelector('section').getBoundingClientRect().bottom")
    assert bottom <= page.execute_script("return innerHeight")


def test_looks_at_the_hold_out_and_fresh_seeds_are_told_plainly(page):
    text = words_of(page, "body")
    assert "looked at 2 times" in text
    assert "NOT UNTOUCHED" in text
    assert "0.50 ± 0.70" in text
    assert "mean 0.20, standard deviation over seeds 0.10, from 0.10 to 0.30" in text


def test_nothing_is_loaded_and_the_console_is_silent(page):
    assert page.execute_script("return performance.getEntriesByType('resource').map(e => e.name)") == []
    assert [entry for entry in page.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []


def test_no_text_is_cut_and_nothing_overlaps(page):
    sizes = "const e = document.documentElement; return [e.scrollWidth, e.clientWidth]"
    scrolled, shown_width = page.execute_script(sizes)
    assert scrolled <= shown_width
    assert page.execute_script(CUT) == []
    assert page.execute_script(WIDE) == []
    assert page.execute_script(OVERLAPS) == []
    assert page.execute_script(CHART_WORDS) == []
