"""HTML pages: no scripts, no other files, nothing loaded from outside."""
