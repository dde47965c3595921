"""What people look at: HTML pages, and output in the terminal."""

from typing import TYPE_CHECKING

from solfa.lazy_names import lazy_names

if TYPE_CHECKING:
    from solfa.ui.html.markup import Markup, element
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "solfa.ui.html.markup": ["Markup", "element"],
        },
    )

__all__ = ["Markup", "element"]
