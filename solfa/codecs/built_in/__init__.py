"""Codecs whose weights come with Solfa as package data, a directory each; `release` reads them."""
