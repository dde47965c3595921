"""The built site asks nothing of other servers: no fonts, scripts, styles or pictures from elsewhere."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

_REQUEST = re.compile(
    r"""<(?:script|img|iframe|source|audio|video)\b[^>]*\ssrc=["']?(?:https?:)?//[^"'\s>]+"""
    r"""|<link\b(?![^>]*rel=["']?canonical)[^>]*\shref=["']?(?:https?:)?//[^"'\s>]+"""
    r"""|url\(["']?(?:https?:)?//[^)]+|@import\s+["'](?:https?:)?//[^"']+"""
)


def outside_requests(text: str) -> list[str]:
    """List what a browser would ask another server for; links that a reader clicks are no requests."""
    return _REQUEST.findall(text)


def on_post_build(config: "MkDocsConfig") -> None:
    """Refuse a site that makes a request."""
    from mkdocs.exceptions import PluginError

    site = Path(config.site_dir)
    for path in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        found = outside_requests(path.read_text(encoding="utf-8"))
        if found:
            raise PluginError(f"{path.relative_to(site)}: asks another server: {found[0]}")
