"""Where recordings come from: folders, tables, manifests, dataset configs and tars, all as one stream of recordings."""
