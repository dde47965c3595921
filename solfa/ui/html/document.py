"""The shell of an HTML page: a head with the style sheet and a policy that forbids scripts, and a body."""

from solfa.ui.html.markup import Markup, element
from solfa.ui.html.style import style_sheet


def html_document(title: str, body: Markup, policy: str) -> str:
    """Return the whole page; `policy` says what it may load."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(style_sheet())),
    )
    return f"<!doctype html>\n{element('html', head, element('body', body), lang='en')}\n"
