"""Every sentence that can be printed: short enough, and in the words of the trade."""

import ast
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "docs"))

import sentences as page

#: Words of the trade that answers print; `docs/glossary.md` says what they mean here.
TERMS = """
    action; baseline; bound; candidate; cannot tell; capped; confidence; critic; cross-fitted;
    discount; doubly robust; effective rows; episode; event; extremal index; extremes; fold;
    gain; gate; group; guardrail; held out; hidden reason; Huber mean; imitate; importance
    sampling; interval; leaf; leverage; logged policy; mapped; margin; marginal weights;
    member; no difference shown; odds; overlap; Pareto shape; policy; pooled; propensity;
    residual; reward; rule; segment; skew; standard error; state; step; tail index; unit;
    value; weight
"""


@pytest.fixture(scope="module")
def every():
    return [(module, text) for module, texts in page.every_sentence().items() for text in texts]


def test_the_sentences_are_found(every):
    texts = [text for _, text in every]
    assert len(texts) > 500
    assert any("which may be chance" in text for text in texts)


def test_no_sentence_is_too_long(every):
    long = [each for each in every if len(each[1].split()) > page.LONGEST]
    assert not long


def test_percentages_are_written_with_a_space(every):
    close = [each for each in every if re.search(r"}%|%}", each[1])]
    for path in page.SOURCE.rglob("*.py"):
        formats = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        said = [ast.unparse(each) for each in formats if isinstance(each, ast.FormattedValue)]
        close += [(path.stem, each) for each in said if re.search("%}'?$", each)]
    assert not close


def test_words_that_are_not_used(every):
    words = re.compile(rf"\b(?:{page.UNUSED})\b", re.IGNORECASE)
    used = [each for each in every if words.search(re.sub(r"{.*?}", "", each[1]))]
    assert not used


def test_the_glossary_has_every_term_that_is_printed():
    source = " ".join(each.read_text(encoding="utf-8") for each in page.SOURCE.rglob("*.py"))
    glossary = (page.SOURCE.parent.parent / "docs" / "glossary.md").read_text(encoding="utf-8")
    explained = " ".join(re.findall(r"\*\*(.*?)\*\*", glossary)).lower()
    for term in re.findall(r"\w[^;]*", TERMS):
        word = " ".join(term.lower().split()).replace("-", "[- ]")
        assert re.search(word.rstrip("ey"), source.lower()), f"{term} is not printed"
        assert re.search(rf"\b{word}", explained), f"{term} is not in the glossary"
