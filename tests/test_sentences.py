"""Every sentence that can be printed: short enough, and in the words of the trade."""

import ast
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "docs"))

import sentences as page


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
