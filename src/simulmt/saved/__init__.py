"""Trained models on disk: checkpoints, exported folders, and what they hold."""
