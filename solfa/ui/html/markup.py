"""HTML that is always escaped: plain text only becomes markup through `element`, so nobody can forget it.

Text from a dataset (file names, captions, metadata) is not trusted: it is escaped, and invisible characters (controls,
direction marks, lone surrogates) are spelled out.
"""

import html


class Markup(str):
    """Text that already is HTML.

    >>> from solfa.ui import Markup, element
    >>> element("p", "1 < 2"), element("p", Markup("<b>bold</b>"))
    ('<p>1 &lt; 2</p>', '<p><b>bold</b></p>')
    """

    __slots__ = ()

    def __html__(self) -> str:
        """Tell template engines that it is escaped already."""
        return self


_VOID = frozenset({"meta", "img", "br", "hr", "rect", "line", "path"})
_JOINERS = "\u200c\u200d"  # invisible, but emoji and several scripts need them


def visible(text: str) -> str:
    """Spell out invisible characters: \\n for a line break, \\x1b for an escape, \\u202e for a direction mark."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character in _JOINERS else repr(character)[1:-1] for character in text
    )


def escape(text: str) -> Markup:
    """Escape plain text; markup stays as it is."""
    return text if isinstance(text, Markup) else Markup(html.escape(visible(text), quote=True))


def join(*parts: str) -> Markup:
    """Concatenate parts, escaping those that are plain text."""
    return Markup("".join(escape(part) for part in parts))


def element(tag: str, *children: str, **attributes: str | float | bool | None) -> Markup:
    """Build an element; `class_` becomes `class`, `view_box` SVG's `viewBox`, and None leaves an attribute out.

    >>> from solfa.ui import element
    >>> str(element("p", "5 < 7", class_="note"))
    '<p class="note">5 &lt; 7</p>'
    """
    written = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in _VOID:
        assert not children, f"<{tag}> cannot have content"
        return Markup(f"<{tag}{written}>" if tag in ("meta", "img", "br", "hr") else f"<{tag}{written}/>")
    return Markup(f"<{tag}{written}>{join(*children)}</{tag}>")


def _attribute(name: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    spelled = {"view_box": "viewBox"}.get(name, name.rstrip("_").replace("_", "-"))
    if value is True:
        return f" {spelled}"
    number = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f' {spelled}="{html.escape(visible(number), quote=True)}"'
