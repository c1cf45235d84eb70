"""The process, its terminal, its memory, and the disk."""
