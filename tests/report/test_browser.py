"""The page in a real browser: quiet, drawn, legible in light and dark and on paper, and right."""

import pytest

from tailproof import compare, diagnose, evaluate, learn
from tailproof.doors.learned import best_constant
from tailproof.policies.forms import Uniform
from tailproof.report.answers import comparison_answer, learned_answer
from tailproof.report.blocks import headline_of
from tailproof.report.pages import Context, report
from tailproof.report.text import minus, number, percent

DRAWN = """
[...document.querySelectorAll("svg.plot.wide")].map((plot) => {
  const marks = [...plot.querySelectorAll(".dot *, .bar *, .line *, .band *")];
  const inside = marks.filter((mark) => mark.getBoundingClientRect().width +
                                        mark.getBoundingClientRect().height > 0);
  const box = plot.getBoundingClientRect();
  return {name: plot.closest("figure").id, marks: inside.length, width: box.width,
          height: box.height, alt: plot.getAttribute("aria-label")};
})
"""
# The ratio of WCAG 2 between the colour of every text and what stands behind it.
FAINT = """
(() => {
  const channel = (c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (c) => { const [r, g, b] = c.map((v) => channel(v / 255));
                         return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const faint = [];
  const texts = "p, li, a, dt, dd, td, th, h1, h2, small, summary, text, figcaption";
  for (const e of document.querySelectorAll(texts)) {
    if (!e.textContent.trim() || !e.getClientRects().length) continue;
    const style = getComputedStyle(e);
    const front = light(parse(e.tagName === "text" ? style.fill : style.color));
    const back = light(behind(e));
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    if (ratio < 4.5) faint.push(e.tagName + " " + e.textContent.slice(0, 30) + " " + ratio.toFixed(2));
  }
  return faint;
})()
"""


UNFOLD = "document.querySelectorAll('.expert').forEach((folded) => { folded.open = true; })"


@pytest.fixture(scope="module")
def shown(browser, page):
    opened = browser.open(page[1])
    opened.evaluate(UNFOLD)
    return opened


def test_the_console_is_quiet_and_hostile_names_do_nothing(shown):
    assert shown.complaints == []
    assert shown.evaluate("document.documentElement.dataset.ready") == "yes"
    assert shown.evaluate("window.hacked === undefined")


def test_every_figure_is_drawn_and_described(shown):
    figures = {each["name"]: each for each in shown.evaluate(DRAWN)}
    assert set(figures) >= {
        f"figure-{key}" for key in (*("value", "folds", "returns", "hill", "survival", "weights"),)
    }
    for each in figures.values():
        assert each["marks"] > 3, each
        assert each["width"] > 400
        assert each["height"] > 80
        assert len(each["alt"]) > 30
    behind = (
        "[...document.querySelectorAll('figure')].every((f) => f.querySelector('table tbody tr'))"
    )
    assert shown.evaluate(behind)


def test_the_numbers_shown_are_those_of_the_json(shown):
    record = shown.evaluate("JSON.parse(document.getElementById('record').textContent)")
    first = shown.evaluate("document.getElementById('answer').textContent")
    assert minus(number(record["value"])) in first
    assert minus(number(abs(record["gain"]["value"]), 3)) in first
    for end in ("low", "high"):
        assert minus(number(record["interval"][end])) in first
    assert minus(percent(record["interval"]["level"])) in first
    cells = (
        "[...document.querySelectorAll('#figure-{} td[data-value]')]"
        ".map((c) => [+c.dataset.value, c.textContent])"
    )
    folds = shown.evaluate(cells.format("folds"))[1::2]
    assert [value for value, _ in folds] == sorted(record["fold_values"])
    for value, text in folds:
        assert text == minus(number(value))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_contrast(browser, page, scheme):
    shown = browser.open(page[1], scheme=scheme)
    shown.evaluate(UNFOLD)
    assert shown.evaluate(FAINT) == []
    background = shown.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(each) for each in background[4:-1].split(",")[:3])
    assert (brightness > 600) if scheme == "light" else (brightness < 150)


CUT = """
[...document.querySelectorAll("svg.plot.narrow text")].filter((text) => {
  const box = text.getBoundingClientRect();
  return box.width && (box.left < 0 || box.right > 390 || box.height < 11);
}).map((text) => text.textContent)
"""
SCROLLS = """
[...document.querySelectorAll(".scroll")].filter((box) => box.scrollWidth > box.clientWidth + 1)
  .map((box) => box.textContent.slice(0, 60))
"""


def test_a_phone_shows_every_label_and_every_column(browser, page):
    shown = browser.open(page[1], width=390, height=800)
    shown.evaluate(UNFOLD)
    shown.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert shown.evaluate("document.documentElement.scrollWidth") <= 390
    assert shown.evaluate(CUT) == []
    assert shown.evaluate(SCROLLS) == []


def test_the_answer_and_its_warnings_come_first_and_expert_figures_are_folded(browser, page):
    shown = browser.open(page[1])
    inside = shown.evaluate("document.querySelector('#answer .points.warn').textContent")
    assert "onerror" in inside  # the fixture's warning
    closed = "[...document.querySelectorAll('.expert')].map((e) => [e.id, e.open])"
    folded = dict(shown.evaluate(closed))
    assert {"tail-evidence", "weights", "settings"} <= set(folded)
    assert not any(folded.values())
    assert shown.locator("#figure-value svg.wide").is_visible()
    assert not shown.locator("#figure-value svg.narrow").is_visible()
    assert not shown.locator("#figure-hill svg.wide").is_visible()


def test_it_reads_without_scripts(browser, page):
    shown = browser.open(page[1], scripts=False)
    assert shown.get_by_role("heading", name="How this was computed").is_visible()
    shown.screenshot(path=page[1].with_suffix(".png"), full_page=True)
    assert page[1].with_suffix(".png").stat().st_size > 20_000


def test_it_prints(browser, page, tmp_path):
    shown = browser.open(page[1], scheme="dark")
    shown.pdf(path=tmp_path / "report.pdf", prefer_css_page_size=True, print_background=True)
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    shown.emulate_media(media="print", color_scheme="dark")
    assert shown.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert shown.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"


def test_tables_sort_and_legends_hide(shown):
    shown.evaluate(
        "document.querySelectorAll('#figure-returns th').forEach((h, i) => i === 1 && h.click())"
    )
    values = shown.evaluate(
        "[...document.querySelectorAll('#figure-returns tbody tr')]"
        ".map((r) => +r.cells[1].dataset.value)"
    )
    assert values == sorted(values)
    hidden = "getComputedStyle(document.querySelector('#figure-folds .dot.main')).visibility"
    for expected in ("hidden", "visible"):
        shown.evaluate("document.querySelector('#figure-folds .legend button').click()")
        assert shown.evaluate(hidden) == expected


def test_a_tooltip_follows_the_pointer(shown):
    dot = shown.locator("#figure-folds .wide .dot circle").first
    dot.scroll_into_view_if_needed()
    dot.hover()
    assert "Fold value" in shown.evaluate("document.getElementById('tip').textContent")
    assert not shown.evaluate("document.getElementById('tip').hidden")


def test_a_diagnosis_without_a_policy_is_a_page_too(browser, diagnosis_file):
    shown = browser.open(diagnosis_file)
    shown.evaluate(UNFOLD)
    assert shown.complaints == []
    names = {each["name"] for each in shown.evaluate(DRAWN)}
    assert {"figure-hill", "figure-influence", "figure-survival"} <= names
    assert "figure-weights" not in names


def test_comparisons_and_learned_policies_are_pages_too(browser, cartpole, tmp_path):
    log, policy = cartpole.log(episodes=40, steps=30, seed=1), cartpole.target()
    comparison = compare(log, {"<i>greedy</i>": policy, "random": Uniform(2)}, gamma=0.9)
    context = Context(source="log.csv", record=comparison.to_dict())
    answer = comparison_answer(comparison)
    made = report(answer, log, diagnose(log, gamma=0.9), context, title="Which is best?")
    shown = browser.open(made.write(tmp_path / "comparison.html"))
    assert shown.complaints == []
    assert "figure-gains" in {each["name"] for each in shown.evaluate(DRAWN)}
    first = shown.evaluate("document.querySelector('#answer .headline').textContent")
    assert first == minus(headline_of(answer).text)
    assert shown.locator("#answer tbody tr").count() >= 3

    learned = learn(log, method="fqi", gamma=0.9, holdout=0.5)
    judging = learned.held_out
    estimate = evaluate(judging, learned.policy, method="roam-dm", gamma=0.9)
    diagnosis = diagnose(judging, learned.policy, gamma=0.9)
    constant = best_constant(judging, gamma=0.9)
    answer = learned_answer(learned, estimate, constant=constant)
    page = report(answer, judging, diagnosis, Context(source="log.csv"), title="Learned")
    shown = browser.open(page.write(tmp_path / "learned.html"))
    assert shown.complaints == []
    assert "figure-actions" in {each["name"] for each in shown.evaluate(DRAWN)}
    first = shown.evaluate("document.querySelector('#answer .headline').textContent")
    assert first == minus(headline_of(answer).text)
    assert f"best single action, {constant.action}, has" in shown.evaluate(
        "document.body.textContent"
    )
