"""Finished runs, read from their directories and logs."""
