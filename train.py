"""Train a simultaneous translation model: `python train.py mechanism=mma_il lambda=0.2`."""

from simulmt.programs.cli import main

if __name__ == "__main__":
    main("train")
