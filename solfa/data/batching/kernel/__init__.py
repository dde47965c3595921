"""A batch filled, and its crops drawn, by compiled code; the same numbers as numpy and hashlib give."""
