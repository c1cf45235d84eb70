"""Curves, paths and heads."""
