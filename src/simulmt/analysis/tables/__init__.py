"""Rows of tables, the names of runs and lines, and the tests between lines."""
