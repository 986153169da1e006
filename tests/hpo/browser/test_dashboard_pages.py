"""Optuna Dashboard, as `foxtune dashboard` serves it, in a real browser."""

import pytest
from selenium.webdriver.support.ui import WebDriverWait

FIGURES = {
    "Equity out of sample",
    "Drawdown",
    "Seed fan",
    "Trials against luck",
    "Objective after every epoch",
}
METRICS = {"width": 1280, "height": 1400, "deviceScaleFactor": 1, "mobile": False}
TEXT = "return document.body.innerText"
TITLES = "return [...document.querySelectorAll('.gtitle')].map(e => e.textContent)"
PICTURE = "const e = document.querySelector('img[alt=\"equity.svg\"]'); return e ? e.naturalWidth : 0"
BOX = """
const box = document.querySelector('img[alt="equity.svg"]').getBoundingClientRect();
return [box.left, box.right]
"""

# What is wider than its place, and so scrolls or is cut sideways; small controls aside.
TOO_WIDE = """
return [...document.querySelectorAll('*')]
  .filter(e => e.clientWidth > 100 && e.scrollWidth > e.clientWidth + 1
    && (e === document.documentElement || getComputedStyle(e).overflowX !== 'visible'))
  .map(e => `${e.tagName} ${e.scrollWidth} > ${e.clientWidth}: ${e.textContent.slice(0, 80)}`)
"""


@pytest.fixture
def visit(browser, dashboard):
    """Opens a page and waits for words on it; afterwards nothing severe may stand in the console."""
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", METRICS)
    browser.get_log("browser")

    def opening(path, *expected):
        browser.get(dashboard + path)
        WebDriverWait(browser, 20).until(
            lambda each: all(word in each.execute_script(TEXT) for word in expected), f"{path}: {expected}"
        )
        return browser

    yield opening
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_the_list_of_studies_names_the_study(visit):
    visit("/", "shown")


def test_the_studys_page_shows_the_best_trial_and_the_reports_charts(visit, shown):
    best = shown.study.best_trial
    page = visit("/studies/1", f"Best Trial (number={best.number})", str(best.value), "wf_sharpe")
    WebDriverWait(page, 20).until(lambda each: set(each.execute_script(TITLES)) >= FIGURES)


def test_the_studys_note_tells_objective_data_split_and_verdict(visit):
    page = visit("/studies/1/note", "Objective wf_sharpe", "Hold-out", "Is it luck?")
    text = " ".join(page.execute_script(TEXT).split())
    assert "known_answer" in text
    assert "900 bars" in text
    assert "tested on" in text
    assert "Chance that it is luck" in text
    assert "Buy and hold" in text


def test_the_best_trials_page_shows_note_equity_picture_log_and_attributes(visit, shown):
    best = shown.study.best_trial
    page = visit(
        f"/studies/1/trials?numbers={best.number}", f"Trial {best.number}", "log.txt", "violation -1"
    )
    WebDriverWait(page, 20).until(lambda each: each.execute_script(PICTURE) > 0)
    text = " ".join(page.execute_script(TEXT).split())
    assert f"objective {best.value:.4f}" in text
    assert "buy and hold" in text
    assert "node node-7" in text
    assert "gpu NVIDIA H200 GPU-0123" in text
    assert "Intermediate Values" in text
    for name in ("fold_sharpe", "seed_sharpe", "trades", "seconds"):
        assert f"{name} " in text
    left, right = page.execute_script(BOX)
    assert 0 <= left < right <= METRICS["width"]  # the dashboard's long attributes do not push it away


@pytest.mark.parametrize("width", [1280, 700])
def test_no_long_attribute_makes_a_page_scroll_sideways(visit, shown, width):
    best = shown.study.best_trial.number
    assert max(len(str(value)) for value in shown.study.best_trial.user_attrs.values()) > 1000
    page = visit(f"/studies/1/trials?numbers={best}", "log.txt", '"her_ratio"')
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {**METRICS, "width": width})
    assert page.execute_script(TOO_WIDE) == []
    if width == METRICS["width"]:  # in a narrow window the cards of the study's page are the dashboard's own
        page = visit("/studies/1", "Study User Attributes", '"direction"')
        assert page.execute_script(TOO_WIDE) == []


def test_a_failed_trials_page_shows_reason_and_the_end_of_its_log(visit):
    page = visit("/studies/1/trials?numbers=12", "Reason: TD error NaN at step 7, member 0", "log.txt")
    assert "warning of `12` | <b>" in page.execute_script(TEXT)
