"""Files that either do not exist or are complete: create-only publishing, digests, safe names, crash points."""
