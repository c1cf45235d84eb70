"""Pictures: quality-latency curves, read/write paths, and attention heads."""
