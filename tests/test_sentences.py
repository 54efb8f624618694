"""Every sentence that can be printed: short enough, and in the words of the trade."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "docs"))

import sentences as page

EVERY = [(module, text) for module, texts in page.every_sentence().items() for text in texts]


def test_the_sentences_are_found():
    texts = [text for _, text in EVERY]
    assert len(texts) > 500
    assert any("which may be chance" in text for text in texts)


def test_no_sentence_is_too_long():
    long = [each for each in EVERY if len(each[1].split()) > page.LONGEST]
    assert not long


def test_words_that_are_not_used():
    words = re.compile(rf"\b(?:{page.UNUSED})\b", re.IGNORECASE)
    used = [each for each in EVERY if words.search(re.sub(r"{.*?}", "", each[1]))]
    assert not used
