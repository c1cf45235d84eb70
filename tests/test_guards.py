import pytest

from simulmt.analysis import summary
from simulmt.decoding.instance import Instance
from simulmt.decoding.writing import Writing
from simulmt.scoring.guards import residue, unspaced_sides
from simulmt.scoring.score import score


def instance(index, **text):
    fields = {"source": "ein Satz", "reference": "a sentence", "prediction": "a sentence", **text}
    return Instance(index=index, delays=(1,) * len(fields["prediction"].split()), **fields)


@pytest.mark.parametrize("field", ["source", "reference", "prediction"])
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1,@@ 000 men", "1,@@"),
        ("don &apos;t", "&apos;"),
        ("a &#124; b", "&#124;"),
        ("a &#x7C; b", "&#x7C;"),
        ("the <<unk>> man", "<unk>"),
        ("the man</s>", "</s>"),
        ("the man <EOS>", "<EOS>"),
        ("the man <pad> <pad>", "<pad>"),
    ],
)
def test_residue_is_named_with_its_place(field, text, found):
    (warning,) = residue([instance(3), instance(7, **{field: text})])
    assert f"in the {field}: {found!r} in sentence 8 (line 2 of instances.log)" in warning
    assert "\n" not in warning


def test_residue_in_text_of_characters_is_found():
    both = Writing(source=True, target=True)
    spaced = {field: " ".join("他@@们<unk>&quot;") for field in ("source", "reference")}
    corpus = [Instance(0, **spaced, prediction="", delays=(), writing=both)]
    assert len(residue(corpus)) == 6


def test_ordinary_text_is_left_in_peace():
    for text in (
        "AT&T and R&D; both; a & b; c &d e; write to a@b.org or a@@b.org",
        "@@ -1,3 +1,4 @@ if a < s > b then x<y>z <start> what?? _this_ one. </p>",
    ):
        assert residue([instance(0, source=text, reference=text, prediction=text)]) == []


def test_a_few_lines_and_a_count_of_the_rest():
    """Each kind and field once; unknown characters count in predictions alone."""
    (warning,) = residue([instance(0, source="⁇", reference="⁇", prediction="a ⁇ b")])
    assert "prediction: '⁇' in sentence 1" in warning
    (warning,) = residue([instance(i, reference="don &apos;t &quot;") for i in range(99, -1, -1)])
    assert "'&apos;' in sentence 1 (line 1 of instances.log), and in 99 more" in warning
    text = "far@@ mer &apos; <unk>"
    corpus = [instance(0, source=text, reference=text, prediction=text + " ⁇")]
    assert len(residue(corpus)) == 6
    assert "5 more" in residue(corpus)[-1]


def test_text_without_spaces_is_noticed_unless_its_characters_are_words():
    words, chinese = "the longest of these words is interesting", "两个男人在红房子前面睡觉。"
    assert unspaced_sides({"source": [words] * 9, "target": []}) == []
    assert unspaced_sides({"source": ["", "-" * 80], "target": [" ".join(chinese)]}) == []
    assert unspaced_sides({"source": ["两个 男人 在 红房子 前面 睡觉 。"], "target": []}) == []
    (warning,) = unspaced_sides({"source": [words], "target": [chinese, "明天见。"]})
    assert warning.startswith("the target has 8 letters per word")
    assert "data.characters=[target]" in warning


def test_the_report_at_the_end_of_a_run_prints_them(tmp_path, capsys):
    corpus = [instance(0, reference="don &apos;t [x]"), instance(1, source="x" * 50)]
    summary.results("wait_k on test", score(corpus), corpus, tmp_path / "best.ckpt", tmp_path)
    lines = capsys.readouterr().out.splitlines()
    assert residue(corpus)[0] in lines
    assert any(line.startswith("the source has 19 letters per word") for line in lines)
