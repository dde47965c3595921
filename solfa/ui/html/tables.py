"""Tables and lists of facts."""

from collections.abc import Iterable, Sequence

from solfa.ui.html.markup import Markup, element, join
from solfa.ui.html.report_data import Fact


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """Build a table that scrolls sideways where it does not fit."""
    columns = element("tr", *(element("th", heading, scope="col") for heading in headings))
    body = (element("tr", *(element("td", cell) for cell in row)) for row in rows)
    return element("div", element("table", element("thead", columns), element("tbody", *body)), class_="scroll")


def facts_list(facts: Sequence[Fact]) -> Markup:
    """Show numbers large, side by side."""
    if not facts:
        return Markup("")
    cells = (
        element(
            "div",
            element("dt", fact.name),
            element("dd", fact.value),
            element("dd", element("small", fact.note)) if fact.note else "",
        )
        for fact in facts
    )
    return element("dl", *cells, class_="facts")


def details_list(details: Sequence[Fact]) -> Markup:
    """Show facts small, one below the other."""
    if not details:
        return Markup("")
    rows = (join(element("dt", fact.name), element("dd", fact.value)) for fact in details)
    return element("dl", *rows, class_="details")
