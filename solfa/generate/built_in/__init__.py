"""Models whose weights ship with Solfa as package data, one directory each; `model_release` finds them."""
