"""Imported Marian models compute, read and write what transformers does with the same folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

pytest.importorskip(
    "transformers", reason="transformers, which these tests compare with, is absent"
)

import zoo
from marian_models import AWKWARD, CODES, SPLIT, UNSPACED, theirs, write_folder
from simulmt.analysis.figures.trace import trace_sentence
from simulmt.data.corpus import Split
from simulmt.data.encoded import EncodedSplit
from simulmt.data.text import normalise
from simulmt.decoding.beam import beam_search
from simulmt.decoding.by_policy import PolicyStream, decode_by
from simulmt.decoding.contextual_stops import prefix_likelihoods
from simulmt.decoding.greedy import greedy
from simulmt.decoding.hypothesis import Hypothesis
from simulmt.decoding.policies import WaitK
from simulmt.decoding.recorded import Recorded
from simulmt.decoding.search import GREEDY, Search
from simulmt.decoding.word_map import WordMap
from simulmt.decoding.writing import Writing, as_written, words_of
from simulmt.errors import UserError
from simulmt.live.translator import Translator
from simulmt.parts.builders import build_policy
from simulmt.programs.evaluate import evaluate
from simulmt.programs.export import import_model
from simulmt.programs.oracle import stops
from simulmt.programs.teacher import stops_of
from simulmt.saved.marian import folder as marian
from simulmt.scoring.history_decoder import decode_after
from simulmt.scoring.split_decoder import SplitDecoder, write_down
from small_runs import configuration

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
FOLDERS = {
    "swish": {},
    "relu": {"activation_function": "relu"},
    "gelu, pad in the middle": {"activation_function": "gelu", "pad": 40},
    "uneven, pad first but one": {"encoder_layers": 3, "decoder_layers": 1, "pad": 1},
    "pickled, with all copies of the embedding": {"pickled": True},
    "pickled halves": {"pickled": True, "half": True},
}
CPU = torch.device("cpu")


@pytest.fixture(scope="module", params=FOLDERS)
def folder(request, tmp_path_factory) -> Path:
    return write_folder(tmp_path_factory.mktemp("marian"), **FOLDERS[request.param])


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Path:
    return write_folder(tmp_path_factory.mktemp("marian") / "opus-mt")


@pytest.fixture(scope="module")
def imported(plain, tmp_path_factory) -> Path:
    to = tmp_path_factory.mktemp("imported") / "folder"
    import_model(configuration("import", f"from={plain}", f"to={to}"))
    return to


def batch(subwords):
    return EncodedSplit.encode(SPLIT, subwords).batch(range(12))


def test_logits_are_those_of_transformers(folder):
    trained, (model, _) = marian.read(folder), theirs(folder)
    rows = batch(trained.subwords)
    with torch.no_grad():
        own = trained.build()(rows.source, rows.source_mask, rows.target_input).logits
        given = {"input_ids": rows.source, "attention_mask": rows.source_mask.long()}
        other = model(**given, decoder_input_ids=rows.target_input).logits
    assert own.dtype == torch.float32
    torch.testing.assert_close(own[rows.target_mask], other[rows.target_mask], atol=1e-4, rtol=0)


def test_ids_are_those_of_the_tokenizer(folder):
    subwords, (_, tokenizer) = marian.read(folder).subwords, theirs(folder)
    for text in map(normalise, [*SPLIT.sources[:40], *AWKWARD]):
        if "</s>" not in text:  # here such text is text, there it stands for the special ids
            assert [*subwords.encode_source(text), 0] == tokenizer(text).input_ids
            other = tokenizer(text_target=text).input_ids
            assert [*subwords.encode_target(text), 0] == other
    assert not {0, subwords.vocabulary.pad} & {*subwords.encode("</s> <unk> <pad> <s>")}
    for text in SPLIT.targets[:40]:
        ids = subwords.encode_target(text)
        assert subwords.decode(ids) == tokenizer.decode(ids, skip_special_tokens=True) == text


def generated(model, row, length: int, **how) -> list[int]:
    """What `generate` writes, without the start and EOS; PAD and the start are barred here, too."""
    pad = model.config.pad_token_id
    (ids,) = model.generate(
        row[None],
        max_new_tokens=length,
        bad_words_ids=[[pad]],
        forced_eos_token_id=None,
        length_penalty=0.0,
        early_stopping=True,
        **how,
    ).tolist()
    return [token for token in ids if token not in (0, pad)]


@pytest.fixture(scope="module")
def trained_folder(tmp_path_factory) -> Path:
    return write_folder(tmp_path_factory.mktemp("marian"), updates=120, pad=7, codes=CODES)


@pytest.fixture(scope="module")
def unspaced_folder(tmp_path_factory) -> Path:
    return write_folder(tmp_path_factory.mktemp("marian"), updates=120, unspaced=True)


@pytest.mark.parametrize("beam", [1, 4])
def test_decoding_is_that_of_generate(trained_folder, beam):
    """Without a length penalty: that of transformers divides by the length, ours is GNMT's.

    Nor where beams end at the length limit: transformers adds no probability of EOS there.
    """
    trained, (model, _) = marian.read(trained_folder, "fra"), theirs(trained_folder)
    own, rows, ended = trained.build(), batch(trained.subwords), set()
    if beam == 1:
        hypotheses = greedy(own, rows.source, rows.source_mask)
    else:
        search = Search(beam=beam, length_penalty=0.0)
        hypotheses = beam_search(own, rows.source, rows.source_mask, search)
    lengths = rows.source_mask.sum(1)
    for source, length, hypothesis in zip(rows.source, lengths, hypotheses, strict=True):
        limit = 2 * int(length) + 20
        if beam == 1 or len(hypothesis.tokens) < limit:
            other = generated(model, source[:length], limit + 1, num_beams=beam)
            assert hypothesis.tokens == other[:limit]
        ended |= {len(hypothesis.tokens)} - {limit}
    assert len(ended) > 2


POLICIES = {
    "wait_k": {"name": "wait_k", "k": 2},
    "local_agreement": {"name": "local_agreement", "n": 2},
}


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("of", ["trained_folder", "unspaced_folder"])
def test_batches_are_streams(name, of, request):
    target = {"trained_folder": "fra"}.get(of)
    trained = marian.read(request.getfixturevalue(of), target)
    policy = build_policy(POLICIES[name])
    model, subwords = trained.build({}, policy), trained.subwords
    lines = [line for line in map(normalise, [*SPLIT.sources[:2], *AWKWARD[:3]]) if line]
    ids = [[*subwords.encode_source(line), subwords.vocabulary.eos] for line in lines]
    source = torch.nn.utils.rnn.pad_sequence(
        [*map(torch.tensor, ids)], batch_first=True, padding_value=subwords.vocabulary.pad
    )
    mask = torch.arange(source.shape[1]) < torch.tensor([*map(len, ids)])[:, None]
    translator, early = Translator(model, subwords, CPU, policy), 0
    for line, row, hypothesis in zip(
        lines, ids, decode_by(policy, model, source, mask), strict=True
    ):
        stream = PolicyStream(model, policy)
        first, *others = subwords.vocabulary.words(row[len(subwords.vocabulary.opening) :])
        for word in ([*subwords.vocabulary.opening, *first], *others):
            stream.read_word(word)
        assert stream.written == hypothesis
        translator.reset()
        words = [new for word in line.split() for new in translator.read(word)]
        early += len(words)
        text = as_written([*words, *translator.finish()], subwords.writing.target)
        assert text == subwords.decode(hypothesis.tokens)
        assert translator.stream.written == hypothesis
    assert early


def test_a_model_of_several_source_languages_is_imported(tmp_path):
    folder = write_folder(tmp_path / "folder", codes=CODES)
    path = folder / "tokenizer_config.json"
    described = json.loads(path.read_text()) | {"source_lang": "cat+oci+spa"}
    path.write_text(json.dumps(described))
    assert marian.read(folder, "fra").manifest.source_language == "mul"


def test_the_words_of_a_target_without_spaces_are_its_characters(unspaced_folder):
    """Each piece holds some of them; the ids are those of the tokenizer all the same."""
    trained, (_, tokenizer) = marian.read(unspaced_folder), theirs(unspaced_folder)
    assert trained.subwords.writing == trained.manifest.writing == Writing(False, True, "zh")
    subwords, several = trained.subwords, 0
    for text in UNSPACED[:20]:
        ids, spaced = subwords.encode_target(text), " ".join(text)
        assert [*ids, 0] == tokenizer(text_target=text).input_ids
        assert subwords.encode_target(spaced) == ids
        assert subwords.decode(ids) == text
        assert subwords.words(ids) == words_of(text, characters=True)
        words = subwords.reference_words(spaced)
        assert (len(words), max(words)) == (len(ids), len(text))
        assert len(words.ends) == len(text)
        several += len(ids) < len(text)
    assert several == 20


def test_a_character_counts_once_in_whatever_subwords_it_is_written(unspaced_folder):
    """NFKC makes three characters of one, or two; unknown ones are a piece together."""
    subwords = marian.read(unspaced_folder).subwords
    for text in ("the…man", "the㎡man…", "ａｂ", "theЖЖЖman", "man\u200b", "", "\u200b"):
        words, ids = subwords.reference_words(text), subwords.encode_target(text)
        assert len(words) == len(ids)
        assert [*words] == sorted(words)
        assert len(words.ends) == (len(normalise(text)) if ids else 0)
    assert [*subwords.reference_words("…man")][:4] == [1, 1, 1, 1]  # after the ▁


def test_the_oracle_gives_the_characters_of_a_subword_one_delay(unspaced_folder):
    trained = marian.read(unspaced_folder)
    model, subwords = trained.build().eval(), trained.subwords
    split = Split(SPLIT.sources[:6], [*map(" ".join, UNSPACED[:6])])
    batch = EncodedSplit.encode(split, subwords).batch(range(6))
    sides = batch.source, batch.source_mask, batch.target_input, batch.target
    words = [*map(subwords.reference_words, split.targets)]
    alone = [WordMap(range(1, len(one) + 1)) for one in words]  # each subword is a word
    pairs = (prefix_likelihoods(model, *sides, maps) for maps in (words, alone))
    for of_words, of_subwords, own in zip(*pairs, words, strict=True):
        by_subword = of_subwords.stops(1.0)
        assert len({*by_subword}) > 1
        assert of_words.stops(1.0) == [by_subword[end - 1] for end in own.ends]


def test_a_picture_labels_every_character(unspaced_folder):
    trained = marian.read(unspaced_folder)
    trace = trace_sentence(trained.build().eval(), trained.subwords, CPU, SPLIT.sources[0])
    target = trace.in_words().target
    assert {*map(len, target)} == {1}
    assert len(target) == len(trace.in_words().delays) > len(trace.target)


def test_words_taken_back_are_characters(unspaced_folder):
    subwords = marian.read(unspaced_folder).subwords
    tokens = subwords.encode_target(UNSPACED[0])
    word = max(([token] for token in tokens), key=lambda one: len(subwords.decode(one)))
    hypothesis = Hypothesis(tokens, [1] * len(tokens), [[]] * len(tokens), [(*word,), (*word,)])
    written = write_down(
        0, Split([SPLIT.sources[0]], [" ".join(UNSPACED[0])]), hypothesis, subwords
    )
    assert written.erased == 2 * len(subwords.decode(word)) > 2


def test_texts_encoded_as_a_whole_have_other_ids_in_the_cache(unspaced_folder):
    subwords = marian.read(unspaced_folder).subwords
    assert subwords.digest != subwords.written(Writing(bleu="zh")).digest
    assert subwords.digest == marian.read(unspaced_folder).subwords.digest


def test_delays_of_characters_are_not_replayed(unspaced_folder, tmp_path):
    import_model(configuration("import", f"from={unspaced_folder}", f"to={tmp_path / 'to'}"))
    for side, lines in (("de", SPLIT.sources[:2]), ("zh", UNSPACED[:2])):
        (tmp_path / f"t.{side}").write_text("\n".join(lines), encoding="utf-8")
    text = [f"source={tmp_path / 't.de'}", f"target={tmp_path / 't.zh'}"]
    replay = ["policy=from_file", f"policy.file={tmp_path / 'a.json'}"]
    with pytest.raises(UserError, match="has delays of characters, but a subword of this model"):
        evaluate(configuration("evaluate", f"checkpoint={tmp_path / 'to'}", *text, *replay))


def test_only_words_of_the_source_end_where_the_next_one_begins(unspaced_folder):
    trained = marian.read(unspaced_folder)
    model, subwords = trained.build(), trained.subwords
    rows = EncodedSplit.encode(SPLIT, subwords).batch(range(12))
    assert model.begins.all()
    for row, ends in zip(rows.source, model.word_ends(rows.source, rows.source_mask), strict=True):
        words = [*subwords.vocabulary.words(row[row != subwords.vocabulary.pad].tolist())]
        assert len(words) == ends.sum() < (row != subwords.vocabulary.pad).sum()


def test_delays_count_the_words_of_the_text(tmp_path):
    """The SentencePiece model makes two words of one, and none of another."""
    text = "Mann a\u00b4b \u200b Mann"  # as an accent by itself, and nothing
    subwords = marian.read(write_folder(tmp_path / "folder", codes=CODES), "fra").subwords
    ids = subwords.encode_source(text)
    assert len([*subwords.vocabulary.words(subwords.encode(text))]) > len(text.split())
    words = subwords.source_words(text)
    assert len(words) == len(ids)
    assert ids[0] == subwords.vocabulary.opening[0]
    assert [*dict.fromkeys(words)] == [1, 2, 4]
    assert subwords.source_words("") == (0,)


def test_a_reference_or_a_source_may_lack_subwords(plain):
    trained = marian.read(plain)
    sources, targets = SPLIT.sources, SPLIT.targets
    split = Split(
        [f"{sources[0]} \u200b", "\u200b", sources[1]],
        [f"{targets[0]} \u200b", targets[1], "\u200b"],
    )
    (batches,) = stops(trained.build(), split, trained.subwords, [0.1], 1000)
    found = sorted(batches, key=lambda one: one.index)
    words = trained.subwords.reference_words(split.targets[0])
    whole = trained.subwords.reference_words(targets[0])
    assert words.ends == [*whole.ends, whole.ends[-1]]
    for one in found:
        assert len(one.delays) == len(one.reference.split())
        assert max(one.delays) <= len(one.source.split())
    assert found[2].delays == (len(sources[1].split()),)
    recorded = [Recorded(delays=one.delays) for one in found]
    for one, text in zip(recorded, zip(split.sources, split.targets, strict=True), strict=True):
        tokens = stops_of("-", trained.subwords, one, *text)
        assert tokens[-1] == len(trained.subwords.encode_source(text[0])) + 1
        assert len(tokens) == len(trained.subwords.encode_target(text[1])) + 1


def test_a_vocabulary_cut_short_ends_in_one_line(plain, tmp_path):
    folder = shutil.copytree(plain, tmp_path / "copy")
    (folder / "vocab.json").write_bytes((folder / "vocab.json").read_bytes()[:-9])
    with pytest.raises(UserError, match=r"vocab\.json: .*use another copy"):
        marian.read(folder)


def test_a_last_word_without_subwords_has_been_read_with_the_end(tmp_path):
    subwords = marian.read(write_folder(tmp_path / "folder")).subwords
    text = f"{SPLIT.sources[0]} \u200b"
    length, end = len(text.split()), len(subwords.encode_source(text))
    assert subwords.encode_source(text) == subwords.encode_source(SPLIT.sources[0])
    tokens = subwords.encode_target(SPLIT.targets[0])
    for delay, delays in ((end + 1, {length}), (end, {length - 1})):
        hypothesis = Hypothesis(tokens, [delay] * len(tokens), [[]] * len(tokens))
        written = write_down(0, Split([text], [""]), hypothesis, subwords)
        assert {*written.delays} == delays


def test_what_is_known_is_printed(plain, tmp_path, capsys):
    import_model(configuration("import", f"from={plain}", f"to={tmp_path / 'to'}"))
    said = capsys.readouterr().out
    assert "opus-mt de-en: 2 + 2 layers of width 32, 135 subwords" in said
    assert "licence: apache-2.0" in said
    assert "training data are unknown" in said
    card = (tmp_path / "to" / "README.md").read_text()
    assert "**licence**: apache-2.0" in card
    assert "**data**: unknown: imported from opus-mt" in card
    assert {path.name for path in (tmp_path / "to").iterdir()} == {
        "README.md", "config.json", "model.safetensors", "source.spm", "special_ids.json",
        "target.spm", "vocab.json"}  # fmt: skip


def test_an_empty_context_changes_nothing_if_subwords_make_two_words_of_one(tmp_path, monkeypatch):
    zoo.limit_length(monkeypatch, lambda read: read + 4)
    subwords = marian.read(write_folder(tmp_path / "folder")).subwords
    split = Split(["Mann a\u00b4b Mann ist Mann"], [""])
    options = {"history": 40, "encoder": "causal", "vocabulary": subwords.vocabulary}
    model = zoo.model(zoo.options("soft"), 2, **options)
    decoder = SplitDecoder(split, subwords, 500, GREEDY, WaitK(k=2))
    assert decode_after(model, decoder, [[]]) == decoder(model)
