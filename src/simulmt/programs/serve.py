"""`simulmt serve`: a page that interprets, for as long as the program runs."""

import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn, TypeAlias

from annotated_types import Ge, Le
from omegaconf import DictConfig
from pydantic import StringConstraints

from simulmt.decoding.policies import OWN
from simulmt.ending import TERMINATED
from simulmt.errors import UserError
from simulmt.options import Config, construct
from simulmt.programs.offers import completed, policy_offers
from simulmt.programs.plain import plain
from simulmt.saved import checkpoint
from simulmt.serve.events import PolicyOffer
from simulmt.serve.journal import Journal
from simulmt.serve.limits import Bytes, Limits, Seconds, Words
from simulmt.serve.limits import Sessions as SessionCount
from simulmt.serve.messages import Setting
from simulmt.serve.models import Served
from simulmt.serve.sessions import Sessions

Port: TypeAlias = Annotated[int, Ge(0), Le(65_535)]
Origin: TypeAlias = Annotated[str, StringConstraints(pattern=r"^https?://[a-z\d.-]+(:\d+)?$")]
_OPEN = (
    "warning: host={host} lets other machines connect, without a password and unencrypted: whoever "
    "reaches port {port} can use the models; host=127.0.0.1 keeps it to this machine"
)


@dataclass(frozen=True)
class Options:
    """The options of `conf/serve.yaml`, which explains each of them."""

    checkpoint: Path
    checkpoint2: Path | None
    policy: dict[str, Any]
    policy2: Any
    dial: dict[str, int | float]
    dial2: dict[str, int | float]
    host: str
    port: Port
    origins: list[Origin]
    sessions: SessionCount
    message_bytes: Bytes
    words: Words
    waiting: Words
    idle: Seconds
    log_text: bool
    device: str
    plugins: list[str]

    @property
    def limits(self) -> Limits:
        """What clients are allowed."""
        return Limits(self.sessions, self.message_bytes, self.words, self.waiting, self.idle)


def serve(cfg: DictConfig) -> None:
    """Serve the page until Ctrl-C or SIGTERM.

    Raises:
        UserError: anything a user can put right.
    """
    options = construct(Options, plain(cfg), "")
    try:
        from simulmt.serve import app, server  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError as error:
        raise UserError(
            f"serve needs {error.name}, which is not installed: pip install 'simulmt[serve]'"
        ) from None
    with server.listen(options.host, options.port) as listening:  # before the models are loaded
        sessions = _sessions(options)
        signal.signal(signal.SIGTERM, _terminate)
        print(f"open {server.address(listening)} in a browser; Ctrl-C ends the server", flush=True)
        if server.is_public(listening):
            port = listening.getsockname()[1]
            print(_OPEN.format(host=options.host, port=port), file=sys.stderr)
        doors = app.Doors(options.origins)
        server.serve(app.application(sessions, doors), listening, options.limits)


def _sessions(options: Options) -> Sessions:
    """Load the models, and return the sessions that use them."""
    offers = policy_offers(options.plugins)
    settings = _settings(options, offers)
    places = dict.fromkeys(path for path in (options.checkpoint, options.checkpoint2) if path)
    models = [
        Served(_name(path.resolve()), checkpoint.load(path), options.device, offers)
        for path in places
    ]
    sessions = Sessions(models, settings, options.limits, Journal(options.log_text))
    for setting, asked in zip(settings, ("", "policy2 and dial2: "), strict=False):
        try:
            sessions.translator(setting)
        except UserError as error:
            raise UserError(f"{asked}{error}") from None
    return sessions


def _name(path: Path) -> str:
    """Return the name of a run's folder; for a checkpoint in it, both names."""
    return f"{path.parent.parent.name}/{path.name}" if path.suffix == ".ckpt" else path.name


def _settings(options: Options, offers: Sequence[PolicyOffer]) -> list[Setting]:
    """Return what the panes of a new session show: the first, and a second if one is asked for."""
    first = _setting(0, options.policy, options.dial)
    if options.checkpoint2 is None and options.policy2 is None and not options.dial2:
        return [first]
    other = options.checkpoint2 not in (None, options.checkpoint)
    policy = completed(OWN if options.policy2 is None else options.policy2, offers)
    return [first, _setting(int(other), policy, options.dial2)]


def _setting(model: int, policy: Config, dials: Mapping[str, float]) -> Setting:
    options = {name: value for name, value in policy.items() if name != "name"}
    return Setting(model, str(policy.get("name")), options, dict(dials))


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(TERMINATED)
