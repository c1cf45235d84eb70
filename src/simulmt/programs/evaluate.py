"""`evaluate.py`: score a trained model on a split of its data, or on any other pair of files."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Le
from omegaconf import DictConfig

from simulmt.analysis import summary
from simulmt.builders import build_policy, other_policy, pick_device
from simulmt.console import watch
from simulmt.data.corpus import SPLITS, Split
from simulmt.data.encoded import EncodedSplit
from simulmt.data.files import FilePair
from simulmt.data.reader import read_pairs
from simulmt.data.sacrebleu_sets import PREFIX, find_set, is_test_set
from simulmt.data.text import ENDINGS
from simulmt.decoding.instance import write_instances
from simulmt.decoding.search import GREEDY
from simulmt.decoding.split_decoder import SplitDecoder
from simulmt.disk import check_writable
from simulmt.errors import UserError
from simulmt.live.stopwatch import translate_timed
from simulmt.live.translator import Translator
from simulmt.memory import enough_memory
from simulmt.options import FOLDER_NAME, Tokens, construct, is_folder_name
from simulmt.programs.evaluated import in_multirun, keep
from simulmt.programs.lines import search_of
from simulmt.programs.plain import plain, turned
from simulmt.run_directory import EVALUATED, EVALUATION, INSTANCES, run_of, write_json
from simulmt.saved import checkpoint
from simulmt.saved.trained import Trained
from simulmt.scoring.score import score
from simulmt.scoring.scores import Decoding, Text


@dataclass(frozen=True)
class Options:
    """The options of `conf/evaluate.yaml`, which explains each of them."""

    checkpoint: Path
    split: str
    source: Path | None
    target: Path | None
    text: Any
    device: str
    batch_tokens: Tokens | None
    beam: int | None
    length_penalty: int | float | None
    dial: dict[str, int | float | None]
    policy: dict[str, Any]
    word_ms: Annotated[int | float, Ge(0.001), Le(1_000_000)] | None
    data_root: Path | None
    plugins: list[str]

    def __post_init__(self) -> None:
        files = f"source={self.source} and target={self.target}"
        other = self.source is not None or is_test_set(self.split)
        named = is_folder_name(self.scored) and self.scored.lower() not in SPLITS
        searches = (self.beam or 1, self.length_penalty) != (1, None)
        for wrong, why in (
            ((self.source is None) != (self.target is None), f"{files}: give both, or neither"),
            (
                self.source and self.split != "test",
                f"split={self.split} with {files}: leave out the split, or the files",
            ),
            (
                other and self.data_root,
                f"data_root={self.data_root} is for a split of the model's own data: leave it out",
            ),
            (
                other and not named,
                f"text is {self.scored!r}; it must be {FOLDER_NAME}, and none of the splits "
                f"{', '.join(SPLITS)}: set text=NAME",
            ),
            (
                self.text is not None and not other,
                f"text={self.text} is for source=FILE target=FILE, or split={PREFIX}NAME",
            ),
            (
                self.word_ms and searches and not other_policy(self.policy),
                f"beam={self.beam} and length_penalty={self.length_penalty} with word_ms="
                f"{self.word_ms}, which decodes greedily: leave them out",
            ),
        ):
            if wrong:
                raise UserError(why)

    @property
    def scored(self) -> str:
        """The name of the decoded sentences in folders and tables."""
        if self.text is not None:
            return str(self.text)
        if self.source is None:
            return self.split.removeprefix(PREFIX).replace("/", "_")
        compressed = self.source.suffix in ENDINGS[1:]
        return (self.source.with_suffix("") if compressed else self.source).stem

    @property
    def dials(self) -> dict[str, float]:
        """The dials that are turned."""
        return turned(self.dial)

    @property
    def changes(self) -> dict[str, Any]:
        """What this decoding does not do as the training's test did."""
        policy = {("policy" if k == "name" else k): v for k, v in other_policy(self.policy).items()}
        own = {name: getattr(self, name) for name in ("beam", "length_penalty", "word_ms")}
        changed = policy | self.dials | own
        return {name: value for name, value in changed.items() if value is not None}


@enough_memory("batch_tokens or beam")
def evaluate(cfg: DictConfig) -> None:
    """Decode with a checkpoint and score, as `train.py` does after training.

    Raises:
        UserError: anything a user can put right.
    """
    options = construct(Options, plain(cfg), "")
    device, policy = pick_device(options.device), build_policy(options.policy)
    trained = checkpoint.load(options.checkpoint)
    model = trained.build(options.dials, policy).to(device)
    search = search_of(trained, model, policy, options.beam, options.length_penalty)
    if policy is None and options.word_ms is not None:
        search = GREEDY
    files, split = _text(options, trained)
    summary.dropped(options.scored, split)
    summary.repeated(options.scored, split, trained.manifest)
    if policy is not None and not model.causal:
        summary.reencoding(split.sources)
    folder = _folder(options, trained.path)
    check_writable(folder)

    subwords, computing = trained.subwords, None
    if options.word_ms is None:
        tokens = options.batch_tokens or 2 * trained.setup.batch_tokens
        encoded = EncodedSplit.encode(split, subwords)
        decoder = SplitDecoder(split, encoded, subwords, tokens, search, policy)
        instances = decoder(model, device, watch)
    else:
        translator = Translator(model, subwords, device, policy, search)
        instances, computing = translate_timed(translator, split, options.word_ms, watch)
    digests, dropped = split.sha256, split.dropped
    decoding = replace(
        Decoding.by(search, trained.path, options.scored),
        dials=options.dials,
        word_ms=options.word_ms,
        policy=other_policy(options.policy),
        text=Text(f"{files.source}", f"{files.target}", digests, dropped) if files else None,
    )
    scores = score(instances, split.needs, decoding, computing)
    folder.mkdir(parents=True, exist_ok=True)
    write_instances(folder / INSTANCES, instances)
    write_json(folder / EVALUATED, scores)
    name = f"{model.mechanism.name} on {options.scored}"
    if in_multirun():
        keep(" ".join([name, *(f"{k}={v}" for k, v in options.changes.items())]), scores)
        summary.brief(scores, folder)
    else:
        summary.results(name, scores, instances, trained.path, folder)
    summary.computing(scores)


def _text(options: Options, trained: Trained) -> tuple[FilePair | None, Split]:
    """Return the files to score, None for a split of the model's own data, and their text."""
    if is_test_set(options.split):
        described = trained.manifest
        files = find_set(options.split, described.source_language, described.target_language)
    elif options.source and options.target:
        files = FilePair(options.source.expanduser(), options.target.expanduser())
    else:
        return None, trained.own_split(options.split, options.data_root)
    return files, read_pairs([files])


def _folder(options: Options, path: Path) -> Path:
    """Return a folder in the run's directory, or beside a checkpoint that lies elsewhere."""
    home = path if path.is_dir() else run_of(path) or path.parent
    changes = (f"{name}{value}" for name, value in options.changes.items())
    return home / EVALUATION / "-".join([options.scored, path.stem, *changes])


if __name__ == "__main__":
    from simulmt.cli import main

    main("evaluate")
