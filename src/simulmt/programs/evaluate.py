"""`evaluate.py`: score a trained model on a split of its data, or on any other pair of files."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Le
from omegaconf import DictConfig

from simulmt.analysis import summary
from simulmt.builders import build_policy, build_search, other_policy, pick_device
from simulmt.console import watch
from simulmt.data.corpus import SPLITS, Split
from simulmt.data.encoded import EncodedSplit
from simulmt.data.files import FilePair
from simulmt.data.reader import read_pairs
from simulmt.data.sacrebleu_sets import PREFIX, find_set, is_test_set
from simulmt.data.text import ENDINGS
from simulmt.decoding.instance import Instance, write_instances
from simulmt.decoding.policy import Policy
from simulmt.decoding.search import GREEDY, Search
from simulmt.decoding.split_decoder import SplitDecoder
from simulmt.disk import check_writable
from simulmt.errors import UserError
from simulmt.live.stopwatch import translate_timed
from simulmt.live.translator import Translator
from simulmt.memory import enough_memory
from simulmt.models.model import Model
from simulmt.options import FOLDER_NAME, Tokens, construct, is_folder_name
from simulmt.programs.evaluated import in_multirun, keep
from simulmt.programs.plain import plain, turned
from simulmt.run_directory import EVALUATED, EVALUATION, INSTANCES, run_of, write_json
from simulmt.saved import checkpoint
from simulmt.saved.trained import Trained
from simulmt.scoring.score import score
from simulmt.scoring.scores import Decoding, Scores, Text


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
    length_penalty: float | None
    dial: dict[str, int | float | None]
    policy: dict[str, Any]
    word_ms: Annotated[float, Ge(0.001), Le(1_000_000)] | None
    data_root: Path | None
    plugins: list[str]

    def __post_init__(self) -> None:
        greedy = self.word_ms is not None and not other_policy(self.policy)
        if greedy and (self.beam or 1, self.length_penalty) != (1, None):
            raise UserError(
                f"length_penalty={self.length_penalty} and beam={self.beam} with word_ms="
                f"{self.word_ms}: what is written at once is decoded greedily, and no lengths are "
                "compared; leave them out"
            )
        if (self.source, self.target) != (None, None):
            self._check_files()
        elif is_test_set(self.split):
            self._check_name()
            if self.data_root is not None:
                raise UserError(
                    f"data_root={self.data_root} with split={self.split}: sacreBLEU says where its "
                    "test sets are; leave out data_root"
                )
        elif self.text is not None:
            raise UserError(
                f"text={self.text} with a split of the model's own data; give source=FILE "
                f"target=FILE or split={PREFIX}NAME, too"
            )

    def _check_files(self) -> None:
        if self.source is None or self.target is None:
            raise UserError(
                f"source is {self.source}, target {self.target}; give both files, or neither to "
                "score a split"
            )
        data = {"split": None if self.split == "test" else self.split, "data_root": self.data_root}
        for key, value in data.items():
            if value is not None:
                raise UserError(
                    f"{key}={value} with source={self.source}: files are scored instead of a "
                    f"split; leave out {key}, or source and target"
                )
        self._check_name()

    def _check_name(self) -> None:
        if not is_folder_name(self.scored) or self.scored.lower() in SPLITS:
            raise UserError(
                f"text is {self.scored!r}; it must be {FOLDER_NAME}, and none of the splits "
                f"{', '.join(SPLITS)}: set text=NAME"
            )

    @property
    def files(self) -> FilePair | None:
        """The source and target files that are scored instead of a split, if the user gave any."""
        if self.source is None or self.target is None:
            return None
        return FilePair(self.source.expanduser(), self.target.expanduser())

    @property
    def scored(self) -> str:
        """The name of the decoded sentences in folders and tables."""
        if self.text is not None:
            return str(self.text)
        if self.source is None:
            return self.split.removeprefix(PREFIX).replace("/", "_")
        compressed = self.source.suffix in ENDINGS[1:]
        return (self.source.with_suffix("") if compressed else self.source).stem

    def given(self, *names: str) -> dict[str, float]:
        """The options of these names that are not null, which means: as in training."""
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


@enough_memory("batch_tokens or beam")
def evaluate(cfg: DictConfig) -> None:
    """Decode with a checkpoint and score, as `train.py` does after training.

    Raises:
        UserError: anything a user can put right.
    """
    options = construct(Options, plain(cfg), "")
    device, policy = pick_device(options.device), build_policy(options.policy)
    files = options.files
    text = read_pairs([files]) if files else None
    trained = checkpoint.load(options.checkpoint)
    if is_test_set(options.split):
        languages = (trained.manifest.source_language, trained.manifest.target_language)
        files = find_set(options.split, *languages)
        text = read_pairs([files])
    model = trained.build(turned(options.dial), policy)
    search = _search(options, trained, model, policy)
    split = text or trained.own_split(options.split, options.data_root)
    summary.dropped(options.scored, split)
    summary.repeated(options.scored, split, trained.manifest)

    if policy is not None and not model.causal:
        summary.reencoding(split.sources)
    translator = Translator(model.to(device), trained.subwords, device, policy, search)
    folder = _folder(options, trained.path)
    check_writable(folder)
    source, target = map(str, files or ("", ""))
    decoded = Text(source, target, split.sha256, split.dropped) if files else None
    scores, instances = _decode(options, trained, translator, split, search, decoded)
    folder.mkdir(parents=True, exist_ok=True)
    write_instances(folder / INSTANCES, instances)
    write_json(folder / EVALUATED, scores)
    _show(
        options, trained, f"{model.mechanism.name} on {options.scored}", scores, instances, folder
    )


def _show(
    options: Options,
    trained: Trained,
    name: str,
    scores: Scores,
    instances: list[Instance],
    folder: Path,
) -> None:
    """Print the scores; of one of several evaluations, keep them for the table as well."""
    if in_multirun():
        changes = (f"{key}={value}" for key, value in _changes(options).items())
        keep(" ".join([name, *changes]), scores)
        summary.brief(scores, folder)
    else:
        summary.results(name, scores, instances, trained.path, folder)
    summary.computing(scores)


def _search(options: Options, trained: Trained, model: Model, policy: Policy | None) -> Search:
    """Return the search of the training, greedy for a policy, with the options that were set."""
    given = options.given("beam", "length_penalty")
    usual = {"beam": 1} if policy else {}
    search = build_search(trained.config["decoding"] | usual | given, model)
    if policy and not policy.drafts and search.beam > 1:
        raise UserError(
            f"beam={search.beam} with policy={options.policy['name']}, which decides word by word: "
            "leave out beam, or take a policy that looks at whole drafts, such as local_agreement"
        )
    if search.beam == 1 and options.length_penalty is not None:
        raise UserError(
            f"length_penalty={options.length_penalty} with a beam of 1: greedy decoding compares "
            "no lengths; set beam above 1 (for a mechanism that reads the whole sentence first)"
        )
    return search if policy or options.word_ms is None else GREEDY


def _decode(
    options: Options,
    trained: Trained,
    translator: Translator,
    split: Split,
    search: Search,
    text: Text | None,
) -> tuple[Scores, list[Instance]]:
    """Decode in batches or word by word."""
    subwords, computing = translator.subwords, None
    if options.word_ms is None:
        tokens = options.batch_tokens or 2 * trained.config["data"]["batch_tokens"]
        decoder = SplitDecoder(
            split,
            EncodedSplit.encode(split, subwords),
            subwords,
            tokens,
            search,
            translator.policy,
        )
        instances = decoder(translator.model, translator.device, watch)
    else:
        instances, computing = translate_timed(translator, split, options.word_ms, watch)
    decoding = replace(
        Decoding.by(search, trained.path, options.scored),
        dials=turned(options.dial),
        word_ms=options.word_ms,
        policy=other_policy(options.policy),
        text=text,
    )
    return score(instances, split.needs, decoding, computing), instances


def _folder(options: Options, path: Path) -> Path:
    """Return a folder in the run's directory, or beside a checkpoint that lies elsewhere."""
    home = path if path.is_dir() else run_of(path) or path.parent
    changes = (f"{name}{value}" for name, value in _changes(options).items())
    return home / EVALUATION / "-".join([options.scored, path.stem, *changes])


def _changes(options: Options) -> dict[str, Any]:
    """Return what this decoding does not do as the training's test did."""
    other = {k: value for k, value in other_policy(options.policy).items() if value is not None}
    policy = {"policy" if name == "name" else name: value for name, value in other.items()}
    return policy | turned(options.dial) | options.given("beam", "length_penalty", "word_ms")


if __name__ == "__main__":
    from simulmt.cli import main

    main("evaluate")
