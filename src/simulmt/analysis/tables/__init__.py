"""Rows and their names."""
