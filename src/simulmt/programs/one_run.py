"""One run of a sweep, in a process of its own: `python -m simulmt.programs.one_run FOLDER CKPT`.

The process reads the configuration that Hydra wrote into the run directory. For several processes
Lightning repeats this command, so that all of them read the same file.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from simulmt.errors import UserError
from simulmt.processes import end_with, is_first_process
from simulmt.programs.outcome import Outcome, write_outcome
from simulmt.programs.train import train
from simulmt.run_directory import HYDRA_CONFIG, LOG

ENDS_WITH = "SIMULMT_ENDS_WITH"
"""Environment variable with the id of the parent process, with which a run of a sweep ends."""


def main(folder: Path, ckpt_path: str) -> int:
    """Train; after a failure the run directory holds its reason.

    Args:
        folder: the run directory.
        ckpt_path: the checkpoint to resume from; empty for none.

    Returns:
        The exit status: 0 after success, 2 for what a user can put right, else 1.
    """
    config = OmegaConf.load(folder / HYDRA_CONFIG)
    assert isinstance(config, DictConfig)
    config.ckpt_path = ckpt_path or None
    if is_first_process():
        form = "[%(asctime)s][%(name)s][%(levelname)s] - %(message)s"  # Hydra's
        logging.basicConfig(filename=folder / LOG, level=logging.INFO, format=form)
    try:
        train(config, str(folder))
    except UserError as error:
        write_outcome(folder, Outcome("failed", str(error)))
        return 2
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        write_outcome(folder, Outcome("failed", reason))
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    end_with(int(os.environ[ENDS_WITH]))
    os.environ[ENDS_WITH] = str(os.getpid())  # for the processes that Lightning starts
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
