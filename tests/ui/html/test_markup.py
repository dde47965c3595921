"""Text never becomes markup, and what cannot be seen is spelled out."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solfa.ui.html.markup import Markup, element, escape, join, visible


def test_text_is_escaped_and_markup_is_not_escaped_twice():
    assert element("p", "a < b & c", element("b", '"q"')) == "<p>a &lt; b &amp; c<b>&quot;q&quot;</b></p>"
    assert escape(Markup("<br>")) == "<br>"


def test_attributes_are_escaped_renamed_and_left_out():
    built = element("img", alt='"><script>', class_="x", aria_label="y", src=None, hidden=True, controls=False)
    assert built == '<img alt="&quot;&gt;&lt;script&gt;" class="x" aria-label="y" hidden>'


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain äöü 音楽", "plain äöü 音楽"),
        ("red \x1b[31m", "red \\x1b[31m"),
        ("two\nlines\x00\x7f", "two\\nlines\\x00\\x7f"),
        ("gpj.\u202eexe", "gpj.\\u202eexe"),
        ("lone \udcff", "lone \\udcff"),
        ("family \U0001f468\u200d\U0001f469", "family \U0001f468\u200d\U0001f469"),
    ],
)
def test_invisible_characters_are_spelled_out(text, seen):
    assert visible(text) == seen


@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_any_text_is_one_text_node_that_utf8_can_hold(text):
    class Reader(HTMLParser):
        tags = 0
        text = ""

        def handle_starttag(self, tag, attrs):
            Reader.tags += 1

        def handle_data(self, data):
            Reader.text += data

    Reader.tags, Reader.text = 0, ""
    reader = Reader()
    reader.feed(element("p", text).encode("utf-8").decode("utf-8"))
    reader.close()
    assert Reader.tags == 1
    assert Reader.text == visible(text)


def test_join_escapes_only_text():
    assert join("<", Markup("<hr>")) == "&lt;<hr>"
