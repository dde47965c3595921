"""The studio: a web server on this machine, with pages to hear datasets, watch runs, ask models, compare and encode."""
