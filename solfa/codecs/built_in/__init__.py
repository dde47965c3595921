"""Codecs whose weights ship with Solfa as package data, one directory each; `release` reads them."""
