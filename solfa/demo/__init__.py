"""The demonstration: a small collection made from nothing, encoded, verified, decoded and reported."""
