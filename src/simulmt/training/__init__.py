"""Training: the only place that imports Lightning or a logger."""
