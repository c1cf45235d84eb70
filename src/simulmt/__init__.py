"""simulmt: train, compare and stream simultaneous translation models.

Letters used for shapes everywhere: B sentences, T target steps, S source positions, D model
dimension, H heads, L decoder layers, V vocabulary. Masks are True for real tokens.
"""

__version__ = "0.1.0"
