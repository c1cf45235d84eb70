"""Quality, latency and guards: what is said of a translation, and how it was counted."""
