"""Where Hydra finds the configuration: simulmt's `conf` and `experiments`, then that of plugins."""

from collections.abc import Sequence
from pathlib import Path

from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin

from simulmt.plugins import CONF, HINT, HOME, conf_folders, locate

_PRESETS = "experiments"
_folders: dict[str, Path] = {}
_searched: list[Path] = []
"""Where the files of the named plugins lie or should lie."""


class Presets(FileConfigSource):
    """A folder that shows Hydra only its folder `experiments`, as a group of that name.

    Presets are outside `conf`, beside the figures that they produced.
    """

    @staticmethod
    def scheme() -> str:
        """Return the word before `://` in the search path."""
        return _PRESETS

    def available(self) -> bool:
        """Return whether the folder is there."""
        return self.is_group(_PRESETS)

    def is_group(self, config_path: str) -> bool:
        """Return whether a path names a folder of presets."""
        return _is_ours(config_path) and super().is_group(config_path)

    def is_config(self, config_path: str) -> bool:
        """Return whether a path names a preset."""
        return _is_ours(config_path) and super().is_config(config_path)

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """Return the names in a folder."""
        if _is_ours(config_path):
            return super().list(config_path, results_filter)
        return [_PRESETS] if config_path == "" and results_filter != ObjectType.CONFIG else []


class SearchPath(SearchPathPlugin):
    """Adds presets and plugins after simulmt's own configuration."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append the folders."""
        search_path.append("simulmt", f"{Presets.scheme()}://{HOME}")
        for module, folder in _folders.items():
            search_path.append(module, f"file://{folder}")


def register(plugins: Sequence[str] = ()) -> None:
    """Make Hydra search presets, the installed plugins and the named ones.

    Raises:
        UserError: there is no such plugin.
    """
    _folders.clear()
    _folders.update(conf_folders(plugins))
    _searched[:] = [locate(module).parent / CONF for module in plugins]
    for part in (Presets, SearchPath):
        Plugins.instance().register(part)


def elsewhere() -> str:
    """Return where else a file may be that Hydra has not found, as the end of a message."""
    if not _searched:
        return f"; {HINT}"
    folders = (f"{folder}{'' if folder.is_dir() else ' (absent)'}" for folder in _searched)
    return f"; also looked in {', '.join(folders)}"


def _is_ours(config_path: str) -> bool:
    return config_path.split("/", maxsplit=1)[0] == _PRESETS
