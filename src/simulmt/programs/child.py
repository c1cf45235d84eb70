"""A run of a sweep in a process of its own: `python -m simulmt.programs.child FOLDER RECORD CKPT`.

For several processes (trainer=ddp) torch's agent repeats this command, so that all of them read the
same configuration.
"""

from simulmt import ending

if __name__ == "__main__":
    ending.begin()  # at once: the other imports may take a minute

import logging
import sys
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from simulmt.errors import UserError
from simulmt.parts import load
from simulmt.processes import is_first_process
from simulmt.programs.outcome import CHOSEN, failure, write_outcome
from simulmt.programs.plain import plugins_of
from simulmt.programs.train import train
from simulmt.run_directory import HYDRA, LOG, read_texts


def main(folder: Path, record: Path, ckpt_path: str) -> int:
    """Train in this process; a failure leaves its reason in the record.

    Args:
        folder: the run directory, which the sweep has locked.
        record: the folder in which the sweep keeps the configuration and the outcome of the run.
        ckpt_path: the checkpoint to resume from; empty for none.

    Returns:
        The exit status: 0 after success, 2 for what a user can put right, else 1.
    """
    logging.raiseExceptions = False  # as in a run of its own
    try:
        config = OmegaConf.load(record / CHOSEN)
        assert isinstance(config, DictConfig)
        config.ckpt_path = ckpt_path or None
        load(plugins_of(config))
        if is_first_process():
            form = "[%(asctime)s][%(name)s][%(levelname)s] - %(message)s"  # Hydra's
            handler = logging.FileHandler(folder / LOG, delay=True)
            logging.basicConfig(handlers=[handler], level=logging.INFO, format=form)
        train(config, str(folder), read_texts(record / HYDRA), locked=True)
    except Exception as error:
        failed = failure(error)
        try:
            write_outcome(record, failed)
        except UserError:  # the disk is full
            print(f"error: {failed.reason}", file=sys.stderr)
        return ending.BAD_INPUT if isinstance(error, UserError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
