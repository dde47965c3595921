"""A package of a user's own that holds grids."""
