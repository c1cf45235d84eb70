"""`evaluate.py`: score a trained model on a split of its data, or on any other pair of files."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig

from simulmt.analysis import summary
from simulmt.analysis.studies.faithfulness import known_faithfulness
from simulmt.analysis.tables.terminal import score_table
from simulmt.data.corpus import Split
from simulmt.data.pairs import FilePair
from simulmt.data.reader import with_documents
from simulmt.data.recognised import as_recognised
from simulmt.decoding.cuts import TOLD
from simulmt.decoding.history import held
from simulmt.decoding.instance import Instance
from simulmt.decoding.policies.from_file import FromFile
from simulmt.decoding.policy import Policy
from simulmt.decoding.search import GREEDY
from simulmt.errors import UserError
from simulmt.files.instances import write_instances, write_lists
from simulmt.files.run_directory import EVALUATED, INSTANCES, LISTS
from simulmt.live.stopwatch import translate_timed
from simulmt.live.translator import Translator
from simulmt.models.model import Model
from simulmt.options import construct
from simulmt.parts.builders import build_policy, pick_device
from simulmt.programs.context import read_context
from simulmt.programs.documents import evaluate_documents
from simulmt.programs.evaluate_options import EvaluateOptions
from simulmt.programs.lines import line_search
from simulmt.programs.plain import plain
from simulmt.saved.trained import Trained
from simulmt.scoring.history_decoder import decode_after
from simulmt.scoring.score import score
from simulmt.scoring.scores import Computing, Decoding, Scores, Text
from simulmt.scoring.split_decoder import SplitDecoder
from simulmt.system.console import console, say, watch
from simulmt.system.disk import check_writable, read_record, write_json
from simulmt.system.memory import enough_memory

_evaluated: dict[str, Scores] = {}
"""The scores of the decodings that this process has made with -m."""


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
        options = construct(EvaluateOptions, plain(cfg), "")
        device = pick_device(options.device, options.weights)
        with enough_memory("batch_tokens or beam", device.type):
            _evaluate(options, device)
    except BaseException:  # which ends Hydra, too: the finished decodings still get their table
        Table().on_multirun_end(cfg)
        raise


def _check_replay(policy: Policy | None, trained: Trained) -> None:
    """Raise UserError if a file has delays of characters, and the subwords hold several."""
    whole = trained.subwords.vocabulary.whole
    if isinstance(policy, FromFile) and policy.unit == "word" and whole:
        raise UserError(
            f"policy.file={policy.file} has delays of characters, but a subword of this model may "
            "hold several: set policy.unit=subword, and give the instances.log of this model"
        )


def _evaluate(options: EvaluateOptions, device: torch.device) -> None:
    """Decode and score."""
    policy = build_policy(options.policy)
    trained = options.model()
    _check_replay(policy, trained)
    files, split = _text(options, trained)
    policies = policy.on(split.sources, trained.subwords.source_words) if policy else [None]
    model = trained.build(options.dial, policies[0]).to(device)
    search = line_search(trained, model, policy, options.beam, options.length_penalty)
    search = GREEDY if options.streams and not policy else search
    options.check_history(model.history)
    folder = options.folder(trained)
    check_writable(folder)
    summary.print_dropped(options.scored, split)
    summary.repeated(options.scored, split, trained.manifest)
    tokens = options.batch_tokens or 2 * trained.setup.batch_tokens
    decoder = SplitDecoder(split, trained.subwords, tokens, search, policy)
    if options.sentences:
        chosen = options.sentences, options.cut, options.history
        evaluate_documents(model, decoder, folder, *chosen)
        return
    instances, computing = _decoded(options, model, decoder)
    decoding = replace(
        Decoding.by(search, trained.path, options.named, trained.digest),
        dials=options.dial,
        word_ms=options.word_ms,
        policy=options.decided_by,
        text=files and Text(f"{files.source}", f"{files.target}", split.sha256, split.dropped),
        context=str(options.context) if options.context else None,
        weights=options.weights,
    )
    scores = score(instances, split.needs, decoding, computing)
    scores = replace(scores, faithfulness=known_faithfulness(instances, split))
    write_instances(folder / INSTANCES, instances)
    if options.export:
        write_lists(folder / LISTS, instances)
    write_json(folder / EVALUATED, scores)
    changes = (f"{key}={value}" for key, value in options.changes.items())
    name = " ".join([f"{model.mechanism.name} on {options.named}", *changes])
    if HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN:
        _evaluated[name if name not in _evaluated else f"{name}, {folder}"] = scores
        summary.print_brief(scores, instances, folder)
    else:
        summary.results(name, scores, instances, trained.path, folder)
    summary.further(scores)


def _decoded(
    options: EvaluateOptions, model: Model, decoder: SplitDecoder
) -> tuple[list[Instance], Computing | None]:
    """Return the decoded sentences, and with `word_ms` the computing times."""
    if options.context:
        before = read_context(options.context, len(decoder.split), decoder.subwords)
        if cut := sum(len(held(model, own)) < len(own) for own in before):
            say(f"{cut:,} contexts exceed data.history={model.history}: oldest parts left out")
        return decode_after(model, decoder, before), None
    if options.word_ms:
        how = decoder.subwords, model.begins.device, decoder.policy, decoder.search
        return translate_timed(Translator(model, *how), decoder.split, options.word_ms)
    return decoder(model, watch), None


def _text(options: EvaluateOptions, trained: Trained) -> tuple[FilePair | None, Split]:
    """Return the files to score, None for a split of the model's own data, and their text.

    Raises:
        UserError: there is no such text, or an evaluation of other text has its name.
    """
    own = options.sentences
    if own and own not in TOLD and not Path(own).expanduser().is_file():
        raise UserError(f"sentences={own} is not a file; give one, or one of {', '.join(TOLD)}")
    files, split = options.read(trained)
    split = with_documents(split, options.documents) if options.documents else split
    split = as_recognised(split, options.unpunctuated, options.lowercased)
    home = options.folder(trained).parent
    for place in home.glob(f"{options.named}*/{EVALUATED}") if files else ():
        made = read_record(place, Scores).decoding
        if made and made.text and made.split == options.named and made.text.sha256 != split.sha256:
            raise UserError(f"{place.parent} has other text: set another text=NAME, or remove it")
    return files, split
