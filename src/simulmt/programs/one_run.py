"""One run of a sweep, in a process of its own: `python -m simulmt.programs.one_run FOLDER CKPT`.

The configuration is the one that Hydra wrote into the run directory. With several processes,
Lightning repeats this very command for each of them, so all of them read the same file.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import traceback
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from simulmt.errors import UserError
from simulmt.programs.outcome import Outcome, write_outcome
from simulmt.programs.train import train
from simulmt.run_directory import HYDRA_CONFIG, LOG
from simulmt.training import report


def main(folder: Path, ckpt_path: str) -> int:
    """Train; the exit status, with the reason in the run directory if it is not 0.

    Args:
        folder: the run directory.
        ckpt_path: what to resume from, empty for nothing.
    """
    config = OmegaConf.load(folder / HYDRA_CONFIG)
    assert isinstance(config, DictConfig)
    config.ckpt_path = ckpt_path or None
    if report.is_first_process():
        form = "[%(asctime)s][%(name)s][%(levelname)s] - %(message)s"  # that of Hydra
        logging.basicConfig(filename=folder / LOG, level=logging.INFO, format=form)
    try:
        train(config, str(folder))
    except UserError as error:
        write_outcome(folder, Outcome("failed", str(error)))
        return 2
    except Exception as error:
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        write_outcome(folder, Outcome("failed", said))
        traceback.print_exc()
        return 1
    return 0


def end_with_parent() -> None:
    """Die when the other end of the standard input goes, however its process ended.

    Otherwise a sweep that is started again after a kill would find its runs still being trained.
    """

    def wait() -> None:
        os.read(0, 1)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    end_with_parent()
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
