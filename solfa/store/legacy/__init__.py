"""Read encoded clips from other tools' layouts, or from an export, as streams of clips for a dataset."""
