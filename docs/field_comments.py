"""Shows the comment beside a dataclass field as its description in the reference."""

import re
from typing import Any

import griffe


class FieldComments(griffe.Extension):
    """Takes what stands behind ``#`` on the line of a field that has no docstring."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Describe the field, if a comment does."""
        if attr.docstring is None and attr.parent and attr.parent.is_class and attr.lineno:
            beside = re.search(r"  # (?!noqa|type:)(.+)$", attr.lines[-1]) if attr.lines else None
            if beside:
                attr.docstring = griffe.Docstring(beside.group(1) + ".", parent=attr)
