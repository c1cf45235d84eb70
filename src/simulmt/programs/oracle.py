"""`simulmt oracle`: the source words that each word of a reference needs, by an offline model."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from annotated_types import MinLen
from omegaconf import DictConfig

from simulmt.analysis.summary import print_dropped
from simulmt.attention.clocks.wait_k import LONGEST
from simulmt.attention.spans import Lookback
from simulmt.data.batches import ordered_batches
from simulmt.data.corpus import Split
from simulmt.data.encoded import EncodedSplit
from simulmt.data.tokenizer import Tokenizer
from simulmt.decoding.contextual_stops import prefix_likelihoods
from simulmt.decoding.instance import Instance, of_reference
from simulmt.decoding.recorded import check_text, read_recorded
from simulmt.errors import UserError
from simulmt.files.instances import write_lists
from simulmt.files.run_directory import tested_checkpoint
from simulmt.latency import METRICS
from simulmt.models.model import Model
from simulmt.options import OneOrMany, Tokens, Weight, construct
from simulmt.parts.builders import build_mechanism, pick_device
from simulmt.programs.plain import plain
from simulmt.programs.texts import TextOptions
from simulmt.saved import checkpoint
from simulmt.scoring.score import UnitDelays, latencies
from simulmt.system.console import say, watch
from simulmt.system.disk import check_writable, write_rows
from simulmt.system.memory import enough_memory


@dataclass(frozen=True)
class OracleOptions(TextOptions):
    """The options of `conf/oracle.yaml`, which explains each of them."""

    checkpoint: Path
    epsilon: Annotated[OneOrMany[Weight], MinLen(1)]
    to: Path | None
    device: str
    batch_tokens: Tokens | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.is_other and not self.to:
            text = f"source={self.source}" if self.source else f"split={self.split}"
            raise UserError(f"{text}: say where the lists of this text go, with to=DIR")


def oracle(cfg: DictConfig) -> None:
    """Write the lists and their latencies, for each epsilon.

    Raises:
        UserError: a mistake that a user can correct, such as a model that does not read first.
    """
    options = construct(OracleOptions, plain(cfg), "")
    with enough_memory("batch_tokens", options.device):
        _oracle(options)


def _oracle(options: OracleOptions) -> None:
    """Find and write the lists."""
    device, trained = pick_device(options.device), checkpoint.load(options.checkpoint)
    folder = options.to or trained.home / "oracle"
    check_writable(folder)
    mechanism = build_mechanism(trained.setup.mechanism)
    waits = "k" in mechanism.dials and isinstance(mechanism.span, Lookback)
    if not (mechanism.offline or waits):
        raise UserError(
            f"checkpoint={options.checkpoint} has mechanism={mechanism.name}, which cannot be "
            "given all of a prefix: give an offline model, such as mechanism=soft, or one of "
            "wait_k, multi_path or wait_info"
        )
    model = trained.build({} if mechanism.offline else {"k": LONGEST}).to(device)
    _, split = options.read(trained)
    print_dropped(options.name, split)
    usual = trained.path in (trained.home, tested_checkpoint(trained.home))
    own = [] if usual else [trained.path.stem]
    name = "-".join([options.name, *own])
    paths = [folder / f"{name}-epsilon{epsilon:.12g}.json" for epsilon in options.epsilon]
    for path in filter(Path.exists, paths):
        check_text(read_recorded(path), split.sources, f"to={folder}: {path.name}")
    tokens = options.batch_tokens or 2 * trained.setup.batch_tokens
    found = stops(model, split, trained.subwords, options.epsilon, tokens)
    rows = []
    for epsilon, path, instances in zip(options.epsilon, paths, found, strict=True):
        write_lists(path, instances)
        rows.append({"epsilon": epsilon, **figures(instances)})
        say("  ".join(f"{key} {value:.4g}" for key, value in rows[-1].items()))
    say(f"{len(split):,} sentences; written: {write_rows(rows, folder / f'{name}.csv').parent}")


def stops(
    model: Model, split: Split, subwords: Tokenizer, epsilons: Sequence[float], tokens: int
) -> list[list[Instance]]:
    """Return the references of a split with the delays of the oracle, for each epsilon.

    Args:
        model: in evaluation mode; it reads the whole sentence first.
        split: the sentences.
        subwords: the model's vocabulary.
        epsilons: as of `PrefixLikelihoods.stops`.
        tokens: largest number of tokens in a batch, all prefixes together.
    """
    encoded, device = EncodedSplit.encode(split, subwords), model.begins.device
    sources = [subwords.source_words(text) for text in split.sources]
    targets = [subwords.reference_words(text) for text in split.targets]
    sizes = encoded.lengths * encoded.lengths.new_tensor([[max(x, default=0) + 1] for x in sources])
    found: list[list[Instance]] = [[] for _ in epsilons]
    for rows in watch(ordered_batches(sizes, tokens), "likelihoods of prefixes"):
        batch = encoded.batch(rows)
        sides = batch.source, batch.source_mask, batch.target_input, batch.target
        source, mask, target_input, target = (side.to(device) for side in sides)
        words = [targets[row] for row in rows]
        likely = prefix_likelihoods(model, source, mask, target_input, target, words)
        for row, one in zip(rows, likely, strict=True):
            text, reference = split.sources[row], split.targets[row]
            for instances, epsilon in zip(found, epsilons, strict=True):
                read = one.stops(epsilon)
                instances.append(of_reference(row, text, reference, read, sources[row]))
    return found


def figures(instances: Sequence[Instance]) -> dict[str, float]:
    """Return the latencies in words."""
    rows = [UnitDelays(i.delays, i.source_length, i.reference_length) for i in instances]
    return {key: float(each) for key, each in latencies(rows, METRICS).items()}
