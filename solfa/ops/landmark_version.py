"""The version of landmarks, apart from them: who only looks for their files need not import what finds them."""

LANDMARKS_VERSION = 1
"""Landmarks of two versions cannot be compared."""
