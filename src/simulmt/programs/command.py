"""Runs the programs under Hydra; a mistake that a user can correct ends in one line."""

import logging
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import hydra
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.errors import HydraException, OverrideParseException
from hydra.experimental.callback import Callback
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from simulmt.errors import UserError
from simulmt.files.plugins import CONF, HOME, conf_folders, named
from simulmt.files.run_directory import absent, remove_empty
from simulmt.options import flat_options
from simulmt.programs.help import SWEPT, groups_of
from simulmt.system.disk import describe_error
from simulmt.system.ending import BAD_INPUT, INTERRUPTED, drop_output, unwind
from simulmt.training.run_name import run_name, within

PLACES = {"train": ("sweep", "run_or_sweep"), "import": ("export", "import_model")}
"""The module and the function of a verb, unless both are named after it."""
_ENVIRONMENT = "hydra.job.env_set."
"""The prefix of the only options that may be empty: environment variables."""
_made: list[Path] = []
"""Folders that Hydra makes for this command, the innermost first."""


class PluginFolders(SearchPathPlugin):
    """Lets Hydra search the configuration of plugins, after simulmt's own."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append the folders of the installed plugins and of those that the command line names."""
        for module, folder in conf_folders(named(sys.argv[1:])).items():
            search_path.append(module, f"file://{folder}")


class RunStart(Callback):
    """A callback that Hydra calls before it makes the folder of a run or a sweep."""

    def on_run_start(self, config: DictConfig, **_: Any) -> None:
        """Remember which folders are absent, so that a rejected command leaves none."""
        _made[:] = absent(Path(config.hydra.run.dir))

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Remember the same of a sweep."""
        _made[:] = absent(Path(config.hydra.sweep.dir))


def run(verb: str) -> None:
    """Let Hydra compose the configuration of a verb and call its program.

    Raises:
        SystemExit: with 2 on bad input, with 130 after Ctrl-C, with 143 after SIGTERM.
    """
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # Hydra then raises the exceptions themselves
    if not os.environ.get("WANDB_MODE"):  # empty means unset, also for wandb
        os.environ.pop("WANDB_MODE", None)
    logging.raiseExceptions = False  # a full disk prints no tracebacks of the log
    signal.signal(signal.SIGTERM, unwind)
    Plugins.instance().register(PluginFolders)
    try:
        with in_one_line(), TemporaryDirectory() as scratch:
            groups = groups_of(HOME / CONF / f"{verb}.yaml")
            for word in sys.argv[1:]:
                name, given, choice = word.partition("=")
                if verb not in SWEPT and word in {"-m", "--multirun"}:
                    raise UserError(f"{word} is for {' and '.join(SWEPT)}: leave it out")
                empty = given and choice.strip(" '\"") in {"", "{}"} and _ENVIRONMENT not in name
                if empty or (choice == "null" and name in groups):  # which Hydra ignores
                    raise UserError(
                        f"{word} gives no value: choose one (see --help), or leave it out"
                    )
                if verb not in SWEPT and "," in choice and not re.search(r"^[\[{'\"]|\\", choice):
                    raise UserError(f"{word}: {name} takes one value, or a list in brackets: [A,B]")
            OmegaConf.register_new_resolver("run_name", run_name, replace=True)
            OmegaConf.register_new_resolver("within", within, replace=True)
            OmegaConf.register_new_resolver("scratch", lambda: scratch, replace=True)
            hydra.main(str(HOME / CONF), verb, version_base="1.3")(work)()
    except KeyboardInterrupt:
        end("interrupted", INTERRUPTED)
    finally:
        if _made and [*_made[0].glob("*")] == [_made[0] / "multirun.yaml"]:  # no run has begun
            (_made[0] / "multirun.yaml").unlink()
        remove_empty(_made)


def work(config: DictConfig) -> Any:
    """Call the program of the verb with its configuration, and end the process on its errors.

    Hydra would add lines to the message.
    """
    from simulmt.parts import load  # noqa: PLC0415  (torch, only once there is work)

    verb = str(HydraConfig.get().job.config_name)
    module, function = PLACES.get(verb, (verb, verb))
    with in_one_line():
        load(config.plugins)
        result = getattr(import_module(f"simulmt.programs.{module}"), function)(config)
        sys.stdout.flush()
        return result


@contextmanager
def in_one_line() -> Iterator[None]:
    """End the process with a one-line message on a mistake that a user can correct."""
    try:
        yield
    except (UserError, HydraException, OmegaConfBaseException) as error:
        end(_remedied(error))
    except OSError as error:
        if error.errno is None:  # not of the system: a library's, such as of requests
            raise
        if error.filename is None:  # of standard output
            drop_output()
        if not isinstance(error, BrokenPipeError):  # the reader, such as `head`, has exited
            end(describe_error(error))


def _remedied(error: Exception) -> str:
    """Return the message of an error in one line, with a remedy in place of Hydra's."""
    if isinstance(error, OverrideParseException):
        return (
            f"{error.override!r}: write KEY=VALUE without spaces; a value with characters other "
            "than ASCII letters, digits and /-+.$%*@?|:_ needs two pairs of quotes: "
            "\"KEY='~/VALUE'\""
        )
    cause = error.__cause__  # knows the options beside the wrong one
    if isinstance(cause, OmegaConfBaseException) and (there := cause.parent_node):
        options: Any = OmegaConf.to_container(there)
        nested = [name for name in flat_options(options) if name.endswith(f".{cause.key}")]
        beside = [name for name in there if name != "hydra"]
        near = get_close_matches(cause.key, beside) or nested or beside
        of = f" of {there['name']}" if there.get("name") else ""
        choice = f"{'one of ' * (len(near) > 1)}{', '.join(near)}"
        return f"{cause.full_key} is not an option{of}; choose {choice}"
    return " ".join(str(error).partition("Config search path:")[0].split())


def end(message: str, status: int = BAD_INPUT) -> NoReturn:
    """Print the message in one line, and exit with the status."""
    print(f"error: {message}", file=sys.stderr)
    sys.exit(status)
