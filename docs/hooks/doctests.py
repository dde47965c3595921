"""For the API reference: examples in docstrings become blocks of code, as MkDocs knows them."""

import re
from typing import Any

import griffe

_FLAG = re.compile(r"\s*# doctest: .*")
_EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\n).*)*", re.MULTILINE)


class DoctestBlocks(griffe.Extension):
    """Fences every example: without it, `>>>` would be a quotation of a quotation of a quotation."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite a docstring before it is rendered."""
        if obj.docstring is not None and ">>> " in obj.docstring.value:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """Put fences around the examples of a docstring, without what tells doctest how to run them."""
    return _EXAMPLE.sub(lambda match: f"```pycon\n{_FLAG.sub('', match[0])}\n```", text)
