"""Run directories, read into rows."""
