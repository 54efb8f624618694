"""Every sentence that can be printed, as the code has it: a table to review apart from its writing.

    python docs/sentences.py > sentences.md

`tests/test_sentences.py` looks for sentences that are too long, and for words that are not used.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "tailproof"
WORDS = 4  # fewest words of a sentence
LONGEST = 75  # words of a text
#: Words of other trades, or of poems: what to write instead is in docs/design.md.
UNUSED = (
    r"honest|taught|teach\w*|lessons?|speaks?|chances|holds with|for want of|laws?|aloud|"
    r"stands? (?:for|in|beside|inside)|all the same"
)


def sentences(path: Path) -> Iterator[str]:
    """Yield the texts of a module that are sentences, in order; f-strings with their fields."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {id(each) for each in _docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped.update(id(part) for part in ast.walk(node) if part is not node)
    for node in ast.walk(tree):
        if id(node) in skipped or not isinstance(node, ast.Constant | ast.JoinedStr):
            continue
        text = re.sub(r"\s+", " ", _template(node)).strip()
        if len(text.split()) >= WORDS and re.search(r"[a-z] [a-z].*[.:?]$", text):
            yield text


def _docstrings(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            for each in body:
                if isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant):
                    yield each.value


def _template(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    assert isinstance(node, ast.JoinedStr)
    parts = (
        str(each.value) if isinstance(each, ast.Constant) else _field(each) for each in node.values
    )
    return "".join(parts)


def _field(node: ast.expr) -> str:
    assert isinstance(node, ast.FormattedValue)
    name = ast.unparse(node.value)
    return f"{{{name}}}" if re.fullmatch(r"[\w.]{1,24}", name) else "{…}"


def every_sentence() -> dict[str, list[str]]:
    """Return the sentences of each module that has any."""
    found = {
        str(path.relative_to(SOURCE).with_suffix("")): list(dict.fromkeys(sentences(path)))
        for path in sorted(SOURCE.rglob("*.py"))
    }
    return {module: each for module, each in found.items() if each}


if __name__ == "__main__":
    print("| module | sentence |\n|---|---|")
    for module, every in every_sentence().items():
        for each in every:
            print(f"| {module} | {each.replace('|', chr(92) + '|')} |")
