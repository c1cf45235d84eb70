"""`simulmt serve`: a page that interprets, for as long as the program runs."""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import yaml
from annotated_types import Ge, Le
from omegaconf import DictConfig
from pydantic import AfterValidator

from simulmt.decoding.cuts import STREAM, check_cut
from simulmt.decoding.instance import texts_of
from simulmt.decoding.policies import OWN, POLICIES
from simulmt.errors import UserError
from simulmt.files import run_directory as files
from simulmt.files.instances import read_instances
from simulmt.files.plugins import CONF, HOME, conf_folders
from simulmt.models.eight_bit import Precision
from simulmt.options import Config, OneOrMany, construct, pick
from simulmt.parts import LOADED
from simulmt.programs.help import head
from simulmt.programs.plain import Dials, plain
from simulmt.saved import checkpoint
from simulmt.saved.trained import Trained
from simulmt.serve.messages import PolicyOffer, Setting
from simulmt.serve.models import Served, options_of
from simulmt.serve.panes import warm_up
from simulmt.serve.sessions import Limits, Sessions
from simulmt.system.console import note


def _origin(text: str) -> str:
    if not re.fullmatch(r"https?://[a-z\d.-]+(:\d+)?/?", text):
        form = "such as https://demo.example.org or http://localhost:9000"
        raise ValueError(f"it must be a scheme and a host in lower case, {form}")
    return text.removesuffix("/")


Origins: TypeAlias = OneOrMany[Annotated[str, AfterValidator(_origin)]]
"""Origins of pages."""
EXAMPLES = 3
"""The number of sentences to try."""


@dataclass(frozen=True)
class ServeOptions(Limits):
    """The options of `conf/serve.yaml`, which explains each of them."""

    checkpoint: Path
    checkpoint2: Path | None
    policy: Config
    policy2: Any
    sentences: Literal["lines", "model"]
    cut: Literal["pointer", "likelihood", "reading"]
    dial: Dials
    dial2: Dials
    host: str
    port: Annotated[int, Ge(0), Le(65_535)]
    origins: Origins
    frame_ancestors: Origins
    log_text: bool
    device: str
    weights: Precision

    def __post_init__(self) -> None:
        check_cut(self.cut, self.sentences)


def serve(cfg: DictConfig) -> None:
    """Serve the page until Ctrl-C or SIGTERM.

    Raises:
        UserError: a mistake that a user can correct.
    """
    options = construct(ServeOptions, plain(cfg), "")
    try:
        from simulmt.serve import app, server  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError as error:
        raise UserError(
            f"serve needs {error.name}, which is not installed: pip install 'simulmt[serve]'"
        ) from None
    # the socket is opened before the models are loaded: a port in use is an error at once
    with server.open_socket(options.host, options.port) as listening:
        origins, frames = options.origins, options.frame_ancestors
        application = app.application(_sessions(options), origins, frames)
        print(f"open {server.address(listening)} in a browser; Ctrl-C stops the server", flush=True)
        if server.is_public(listening):
            warning = "lets other machines use the models without a password or encryption"
            print(f"warning: host={options.host} {warning}", file=sys.stderr)
        server.server(application, options.message_bytes).run(sockets=[listening])


def _sessions(options: ServeOptions) -> Sessions:
    """Load the models, and return the sessions that use them: of one pane or, if asked, of two."""
    offers = policy_offers([*LOADED])
    settings = [_setting(0, completed("policy", options.policy, offers), options.dial)]
    if options.checkpoint2 is not None or options.policy2 is not None or options.dial2:
        other = options.checkpoint2 or options.checkpoint
        model = int(other.resolve() != options.checkpoint.resolve())
        settings.append(
            _setting(model, completed("policy2", options.policy2, offers), options.dial2)
        )
    chosen = (options.checkpoint, options.checkpoint2)
    places = dict.fromkeys(path.resolve() for path in chosen if path)
    models, cut = [], options.cut if options.sentences == STREAM else None
    for name, path in zip(names_of([*places]), places, strict=True):
        run = replace(checkpoint.load(path), precision=options.weights)
        models.append(Served(name, run, options.device, offers, examples(run), cut))
    if len({model.offer.characters[0] for model in models}) > 1:
        raise UserError(
            f"checkpoint={options.checkpoint} and checkpoint2={options.checkpoint2} differ in "
            "data.characters: panes read the same source words, so give models that agree"
        )
    sessions = Sessions(models, settings, options, options.log_text)
    for setting, asked in zip(settings, ("", "second pane: "), strict=False):
        try:
            warm_up(sessions.pane(setting))
        except UserError as error:
            raise UserError(f"{asked}{error}") from None
    return sessions


def names_of(paths: Sequence[Path]) -> list[str]:
    """Return the ends of paths without `checkpoints`, as long as needed to tell models apart."""
    parts = [[part for part in path.parts if part != files.CHECKPOINTS] for path in paths]
    names = list[str]()
    for count in range(1, max(map(len, parts)) + 1):
        ends = [count + (own[-1].endswith(".ckpt")) for own in parts]
        names = ["/".join(own[-end:]) for own, end in zip(parts, ends, strict=True)]
        if len({*names}) == len(names):
            break
    return names


def examples(trained: Trained) -> list[str]:
    """Return a short, a middling and a long sentence of the test set that a run has decoded.

    An exported or imported folder holds no sentences, so it has none.
    """
    run = files.run_of(trained.path)
    if run is None or not (run / files.INSTANCES).is_file():
        return []
    log = read_instances(run / files.INSTANCES, trained.subwords.writing)
    sources = {source for source, *_ in map(texts_of, log)} - {""}
    ordered = sorted(sources, key=lambda source: (len(source), source))
    places = [len(ordered) * part // (EXAMPLES + 1) for part in range(1, EXAMPLES + 1)]
    return [ordered[place] for place in sorted({*places}) if ordered]


def policy_offers(plugins: Sequence[str]) -> list[PolicyOffer]:
    """Return the policies of simulmt, of installed plugins and of `plugins`.

    Policies with an option that is not a number or has no default are left out, and those of a
    package that shares a folder with a plugin but was not named.
    """
    loaded = (folder for name, folder in conf_folders(plugins).items() if name in sys.modules)
    folders = [HOME / CONF, *loaded]  # a plugin that failed to load has had a warning
    paths = [path for one in folders for path in sorted((one / "policy").glob("[!_]*.yaml"))]
    offers = [_offer(path) for path in paths if "???" not in path.read_text(encoding="utf-8")]
    numbers = (int, float, type(None))
    fit = [one for one in offers if one and all(type(o.value) in numbers for o in one.options)]
    return sorted(fit, key=lambda offer: offer.name != OWN)


def completed(option: str, policy: object, offers: Sequence[PolicyOffer]) -> Config:
    """Return the options of a policy that a user wrote as a name, or as a name and some options.

    None means the model's own decision.

    Args:
        option: `policy` or `policy2`, for the message.
        policy: as written.
        offers: the policies that a page offers.

    Raises:
        UserError: there is no such policy among the offers.
    """
    given = policy if isinstance(policy, dict) else {"name": OWN if policy is None else policy}
    offer = pick({one.name: one for one in offers}, given.get("name"), option)
    return {option.name: option.value for option in offer.options} | given


def _offer(path: Path) -> PolicyOffer | None:
    """Return the policy of a file, if it is loaded; the comment at its top describes it."""
    lines = path.read_text(encoding="utf-8").splitlines()
    whole = {line.partition(":")[0]: line for line in lines}  # with the comment on the option
    values = yaml.safe_load("\n".join(lines))
    if not isinstance(values, dict) or "name" not in values or "defaults" in values:
        note(f"{path} is left out: the page offers policies whose file has a name and all options")
        return None
    name = values.pop("name")
    if (make := POLICIES.get(name)) is None and name != OWN:
        note(f"{path} is left out: no loaded plugin has a policy {name}; plugins= loads more")
        return None
    options = options_of(make, values, whole) if make else ()
    return PolicyOffer(name, " ".join(head(path)), bool(make and make.revises), options)


def _setting(model: int, policy: Config, dials: Mapping[str, float]) -> Setting:
    options = {name: value for name, value in policy.items() if name != "name"}
    return Setting(model, str(policy.get("name")), options, dials)
