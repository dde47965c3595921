"""Benchmarks of datasets in object stores, with a real server."""
