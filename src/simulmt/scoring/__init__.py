"""Quality, latency and guards: what decoded sentences score, and how each score is counted."""
