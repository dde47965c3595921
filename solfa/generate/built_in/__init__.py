"""Models whose weights ship with Solfa as package data, one directory each; `release` finds them."""
