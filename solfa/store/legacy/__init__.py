"""Read the layouts in which others, or an export, keep encoded clips, as streams of clips for a dataset."""
