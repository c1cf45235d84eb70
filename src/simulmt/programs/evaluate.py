"""`evaluate.py`: score a trained model on a split of its data, or on any other pair of files."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le
from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig

from simulmt.analysis import summary
from simulmt.analysis.studies.faithfulness import known_faithfulness
from simulmt.analysis.tables.terminal import score_table
from simulmt.data.corpus import SPLITS, Split
from simulmt.data.encoded import EncodedSplit
from simulmt.data.pairs import FilePair
from simulmt.data.reader import read_pairs, with_documents
from simulmt.data.recognised import as_recognised
from simulmt.data.sacrebleu_sets import PREFIX, find_set, is_test_set
from simulmt.data.store import digest_of_file
from simulmt.data.text import ENDINGS
from simulmt.data.writing_options import BleuTokens
from simulmt.decoding.history import held
from simulmt.decoding.search import GREEDY
from simulmt.errors import UserError
from simulmt.files.instances import write_instances, write_lists
from simulmt.files.run_directory import EVALUATED, EVALUATION, INSTANCES, LISTS, run_of
from simulmt.live.stopwatch import translate_timed
from simulmt.live.translator import Translator
from simulmt.models.eight_bit import Precision
from simulmt.options import FOLDER_NAME, Config, FolderName, Tokens, construct, is_folder_name
from simulmt.parts.builders import build_policy, other_policy, pick_device
from simulmt.programs.context import read_context
from simulmt.programs.documents import STREAM, DocumentDecoding, check_cut
from simulmt.programs.lines import line_search
from simulmt.programs.plain import Dials, plain
from simulmt.saved import checkpoint
from simulmt.saved.trained import Trained
from simulmt.scoring.conventions import check_bleu
from simulmt.scoring.history_decoder import decode_after
from simulmt.scoring.score import score
from simulmt.scoring.scores import Decoding, Scores, Text
from simulmt.scoring.split_decoder import SplitDecoder
from simulmt.system.console import console, say, watch
from simulmt.system.disk import check_writable, read_record, write_json
from simulmt.system.memory import enough_memory

_evaluated: dict[str, Scores] = {}
"""The scores of the decodings that this process has made with -m."""


@dataclass(frozen=True)
class EvaluateOptions:
    """The options of `conf/evaluate.yaml`, which explains each of them."""

    checkpoint: Path
    split: str
    source: Path | None
    target: Path | None
    text: FolderName | None
    device: str
    weights: Precision
    batch_tokens: Tokens | None
    beam: int | None
    length_penalty: int | float | None
    dial: Dials
    policy: Config
    word_ms: Annotated[int | float, Ge(0.001), Le(1_000_000)] | None
    data_root: Path | None
    documents: Path | None
    unpunctuated: bool
    lowercased: bool
    bleu: BleuTokens | None
    context: Path | None
    sentences: str | None
    history: bool
    cut: Literal["pointer", "likelihood", "reading"]
    export: Literal["policy"] | None
    plugins: list[str]

    def __post_init__(self) -> None:
        files = f"source={self.source} and target={self.target}"
        other = self.source is not None or is_test_set(self.split)
        if (self.source is None) != (self.target is None):
            raise UserError(f"{files}: give both, or neither")
        if self.source and self.split != "test":
            raise UserError(f"split={self.split} with {files}: leave out the split, or the files")
        if other and (not is_folder_name(self.scored) or self.scored.lower() in SPLITS):
            raise UserError(
                f"the name of the text is {self.scored!r}, but it must be {FOLDER_NAME}, and not "
                f"one of the splits {', '.join(SPLITS)}: set text=NAME"
            )
        if other and self.data_root:
            raise UserError(
                f"data_root={self.data_root} is for the model's own data: leave it out, or leave "
                f"out {files if self.source else f'split={self.split}'}"
            )
        if self.text is not None and not other:
            raise UserError(
                f"text={self.text} has no effect on the model's own splits: leave it out, or give "
                f"source=FILE target=FILE or split={PREFIX}NAME"
            )
        if self.documents and not self.source:
            raise UserError(
                f"documents={self.documents} belongs to source=FILE and target=FILE: give these,"
                " or leave it out for the model's own data"
            )
        check_cut(self.cut, self.sentences)
        if self.history and self.sentences in (None, STREAM):
            raise UserError(
                f"history=true with sentences={self.sentences}: it is for sentences of documents "
                "whose ends are told; add sentences=lines, or leave it out"
            )
        chosen = {name: getattr(self, name) for name in ("word_ms", "sentences", "context")}
        if len(given := {name: value for name, value in chosen.items() if value}) > 1:
            raise UserError(
                f"{' and '.join(f'{name}={value}' for name, value in given.items())}: sentences are"
                " timed, belong to documents or have a context; give one of these options"
            )
        if self.export and self.sentences:
            raise UserError(
                f"export={self.export} with sentences={self.sentences}: the lists are of sentences;"
                " leave one of them out"
            )
        searches = (self.beam or 1, self.length_penalty) != (1, None)
        if self.streams and searches and not other_policy(self.policy):
            raise UserError(
                f"beam={self.beam} and length_penalty={self.length_penalty} with word_ms="
                f"{self.word_ms}, context or history, which decode greedily: leave them out"
            )

    def model(self) -> Trained:
        """Return the checkpoint, with the chosen tokeniser of BLEU.

        Raises:
            UserError: it cannot be loaded, or the tokeniser is not installed.
        """
        trained = replace(checkpoint.load(self.checkpoint), precision=self.weights)
        if self.bleu:
            writing = replace(trained.subwords.writing, bleu=self.bleu)
            trained = replace(trained, subwords=trained.subwords.written(writing))
        check_bleu(trained.subwords.writing)
        return trained

    def check_history(self, seen: int) -> None:
        """Check that a model which sees `seen` subwords of the sentences before can be given them.

        Raises:
            UserError: it sees none.
        """
        if (self.context or self.history) and not seen:
            raise UserError(
                f"context={self.context} and history={self.history} with a model of "
                "data.history=0, which sees no sentences before: leave them out, or train with "
                "data.documents=true data.history=60"
            )

    @property
    def streams(self) -> bool:
        """True if the sentences are decoded as in a stream."""
        return bool(self.word_ms or self.context or self.history)

    @property
    def scored(self) -> str:
        """The name of the decoded sentences in folders and tables."""
        if self.text is not None:
            return self.text
        if self.source is None:
            return self.split.removeprefix(PREFIX).replace("/", "_")
        compressed = self.source.suffix in ENDINGS[1:]
        return (self.source.with_suffix("") if compressed else self.source).stem

    @property
    def named(self) -> str:
        """The same name, and what the source has lost."""
        return self.scored + "_unpunctuated" * self.unpunctuated + "_lowercased" * self.lowercased

    @property
    def changes(self) -> Config:
        """The options in which this decoding differs from the test after training."""
        policy = {("policy" if k == "name" else k): v for k, v in other_policy(self.policy).items()}
        own = {name: getattr(self, name) for name in ("beam", "length_penalty", "word_ms", "bleu")}
        if policy.get("policy") == "from_file":
            content = digest_of_file(Path(policy["file"]).expanduser())
            policy["file"] = f"{Path(policy['file']).stem}-{content[:8]}"
        changed = {**policy, **self.dial, **own}
        if self.sentences:
            changed["sentences"] = Path(self.sentences).stem + "+history" * self.history
        if self.context:
            changed["context"] = self.context.stem
        if self.sentences == STREAM:
            changed["cut"] = self.cut
        if self.weights != "float32":
            changed["weights"] = self.weights
        return {name: value for name, value in changed.items() if value is not None}

    def folder(self, path: Path) -> Path:
        """Return the folder of this evaluation, in the run's directory or beside the checkpoint."""
        changes = [f"{name}{value}" for name, value in self.changes.items()]
        stem = [] if path.is_dir() else [path.stem]  # an exported model may be renamed
        home = path if path.is_dir() else run_of(path) or path.parent
        return home / EVALUATION / "-".join([self.named, *stem, *changes])


class Table(Callback):
    """A callback that Hydra calls in the process that the user started."""

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        """Print one table of all decodings of this process."""
        if _evaluated:
            console.print(score_table(_evaluated))
            _evaluated.clear()


def evaluate(cfg: DictConfig) -> None:
    """Decode with a checkpoint and score, as `train.py` does after training.

    Raises:
        UserError: a mistake that a user can correct.
    """
    try:
        _evaluate(cfg)
    except BaseException:  # which ends Hydra, too: the finished decodings still get their table
        Table().on_multirun_end(cfg)
        raise


@enough_memory("batch_tokens or beam")
def _evaluate(cfg: DictConfig) -> None:
    """Decode and score."""
    options = construct(EvaluateOptions, plain(cfg), "")
    device, policy = pick_device(options.device, options.weights), build_policy(options.policy)
    trained, word_ms = options.model(), options.word_ms
    files, split = _text(options, trained)
    policies = policy.on(split.sources) if policy else [None]
    model = trained.build(options.dial, policies[0]).to(device)
    search = line_search(trained, model, policy, options.beam, options.length_penalty)
    search = GREEDY if options.streams and not policy else search
    options.check_history(model.history)
    folder = options.folder(trained.path)
    check_writable(folder)
    summary.print_dropped(options.scored, split)
    summary.repeated(options.scored, split, trained.manifest)
    drafted = any(each.decoding and each.decoding.policy for each in _evaluated.values())
    if policy is not None and not model.causal and not drafted:
        summary.reencoding(split.sources)
    subwords, tokens = trained.subwords, options.batch_tokens or 2 * trained.setup.batch_tokens
    if options.sentences:
        chosen = (options.sentences, options.cut, tokens, search, policy, options.history)
        how = DocumentDecoding(*chosen)
        how.evaluate(model, split, subwords, folder)
        return
    computing = None
    if options.context:
        before = read_context(options.context, len(split), subwords)
        if cut := sum(len(held(model, own)) < len(own) for own in before):
            say(f"{cut:,} contexts exceed data.history={model.history}: oldest parts left out")
        instances = decode_after(model, split, subwords, search, policy, before, watch)
    elif word_ms is None:
        encoded = EncodedSplit.encode(split, subwords)
        decode = SplitDecoder(split, encoded, subwords, tokens, search, policy)
        instances = decode(model, watch)
    else:
        translator = Translator(model, subwords, device, policy, search)
        instances, computing = translate_timed(translator, split, word_ms, watch)
    decoding = replace(
        Decoding.by(search, trained.path, options.named),
        dials=options.dial,
        word_ms=word_ms,
        policy=other_policy(options.policy),
        text=files and Text(f"{files.source}", f"{files.target}", split.sha256, split.dropped),
        context=str(options.context) if options.context else None,
        weights=options.weights,
    )
    scores = score(instances, split.needs, decoding, computing)
    scores = replace(scores, faithfulness=known_faithfulness(instances, split))
    folder.mkdir(parents=True, exist_ok=True)
    write_instances(folder / INSTANCES, instances)
    if options.export:
        write_lists(folder / LISTS, instances)
    write_json(folder / EVALUATED, scores)
    name = f"{model.mechanism.name} on {options.named}"
    if HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN:
        _evaluated[" ".join([name, *(f"{k}={v}" for k, v in options.changes.items())])] = scores
        summary.print_brief(scores, folder)
    else:
        summary.results(name, scores, instances, trained.path, folder)
    summary.further(scores)


def _text(options: EvaluateOptions, trained: Trained) -> tuple[FilePair | None, Split]:
    """Return the files to score, None for a split of the model's own data, and their text.

    Raises:
        UserError: there is no such text, or an evaluation of other text has its name.
    """
    if is_test_set(options.split):
        described = trained.manifest
        files = find_set(options.split, described.source_language, described.target_language)
    elif options.source and options.target:
        files = FilePair(options.source.expanduser(), options.target.expanduser())
    else:
        split = trained.own_split(options.split, options.data_root)
        return None, as_recognised(split, options.unpunctuated, options.lowercased)
    split = read_pairs([files], writing=trained.subwords.writing)
    home = options.folder(trained.path).parent
    split = with_documents(split, options.documents) if options.documents else split
    split = as_recognised(split, options.unpunctuated, options.lowercased)
    for place in home.glob(f"{options.named}*/{EVALUATED}"):
        made = read_record(place, Scores).decoding
        if made and made.text and made.split == options.named and made.text.sha256 != split.sha256:
            raise UserError(f"{place.parent} is of other text: set another text=NAME, or remove it")
    return files, split
