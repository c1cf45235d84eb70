"""Composition roots, one for each program: the only place that sees a configuration."""
