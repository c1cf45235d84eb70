"""An exported folder: what it holds of a run, and which folders are refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from simulmt.data.subwords import Subwords
from simulmt.errors import UserError
from simulmt.files import run_directory
from simulmt.live.translator import Translator
from simulmt.programs.export import export
from small_runs import LONGER, configuration


@pytest.fixture(scope="module")
def run(trained_once) -> Path:
    return trained_once(*LONGER, "mechanism=mma_il")


@pytest.fixture
def given_away(run, tmp_path) -> Path:
    folder = tmp_path / "given_away"
    export(configuration("export", f"checkpoint={run}", f"to={folder}"))
    return folder


@pytest.mark.parametrize("chosen", [["mechanism=mma_il"], ["mechanism=soft", "decoding.beam=1"]])
def test_only_the_tested_checkpoint_has_the_scores(chosen, trained_once, tmp_path, capsys):
    run = trained_once(*LONGER, *chosen)
    untested, tested = run / run_directory.LAST, run_directory.tested_checkpoint(run)
    for place, scored in ((untested, False), (tested, True)):
        to = tmp_path / place.stem
        export(configuration("export", f"checkpoint={place}", f"to={to}"))
        assert (to / "scores.json").exists() is scored
        assert ("no test scores" in capsys.readouterr().out) is not scored


def spoil_config(folder: Path, group: str, **options: object) -> None:
    path = folder / "config.json"
    described = json.loads(path.read_text())
    described["config"][group] |= options
    path.write_text(json.dumps(described))


def test_a_change_of_any_part_of_an_exported_model_is_noticed(given_away, tmp_path):
    subwords = Subwords.train([f"{n} other words" for n in range(200)], 40)
    changes = {
        "config.json": lambda content: content.replace(b'"seed": 1', b'"seed": 2'),
        "subwords.model": lambda _: subwords.files["subwords.model"],
        "model.safetensors": lambda content: content[:-4] + bytes([content[-4] ^ 1]) + content[-3:],
    }
    for name, change in changes.items():
        folder = Path(shutil.copytree(given_away, tmp_path / name))
        before = (folder / name).read_bytes()
        (folder / name).write_bytes(change(before))
        assert (folder / name).read_bytes() != before
        with pytest.raises(UserError, match=f"{name} is corrupt or was changed: export .* again"):
            Translator.load(folder)


def test_what_strangers_might_send_is_refused(given_away, tmp_path):
    def refused(spoil, message: str) -> None:
        folder = tmp_path / "spoilt"
        shutil.copytree(given_away, folder)
        described = json.loads((folder / "config.json").read_text())
        del described["sha256"]  # strangers may
        (folder / "config.json").write_text(json.dumps(described))
        spoil(folder)
        with pytest.raises(UserError, match=message):
            Translator.load(folder)
        shutil.rmtree(folder)

    refused(lambda f: spoil_config(f, "model", name="os.system"), "choose one of")
    refused(lambda f: spoil_config(f, "model", _target_="os.system"), "no option _target_")
    refused(lambda f: spoil_config(f, "model", dim=2**16), "model|size mismatch")
    refused(lambda f: spoil_config(f, "model", dim=2**40), "model.dim is .* 100000")
    refused(lambda f: (f / "config.json").write_text("[1]"), "absent or corrupt")
    refused(lambda f: (f / "model.safetensors").write_bytes(b"\x80\x04."), "not a safetensors")
    refused(lambda f: (f / "subwords.model").write_bytes(b"\xff" * 9), "not a SentencePiece model")
