"""Absurd values of the right type are refused in one line, before anything is read or replaced."""

import pytest

from simulmt.errors import UserError
from simulmt.programs.train import train
from small_runs import SMALL, configuration

HUGE, VAST = 10**30, 10**400


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("optim.lr=1e300", "optim.lr is 1e[+]300"),
        (f"optim.warmup={VAST}", "optim.warmup is 10+; it must be at most 1,000,000,000"),
        ("optim.eps=1e300", "optim.eps is"),
        ("lambda=1e38", "lambda is 1e[+]38"),
        (f"trainer.accumulate={HUGE}", "trainer.accumulate is 10+"),
        (f"trainer.devices={HUGE}", "trainer.devices is 10+"),
        (
            "trainer.devices=1000",
            "each of 1,000 processes has 0.0 .* or trainer.devices",
        ),
        ("sweep.retries=1000000000", "sweep.retries is 10+"),
        (f"mechanism.energy_bias={VAST}", "energy_bias is 10+"),
        ("data.train=1000000000", "data.train is 10+"),
        ("decoding.length_penalty=1e30", "decoding.length_penalty is 1e[+]30"),
        ("mechanism.noise=1e300", "mechanism.noise is 1e[+]300"),
        ("mechanism.energy_bias=-1e300", "energy_bias is -1e[+]300"),
        ("model.encoder_layers=1000000000", "encoder_layers is 10+"),
        ("model.heads=1000000000", "model.heads is 10+"),
        ("model.dim=1000000000", "model.dim is 10+"),
        ("model.ffn=1000000000", "model.ffn is 10+"),
        (f"data.batch_tokens={HUGE}", "data.batch_tokens is 10+"),
        ("data.subwords.size=1000000000", "subwords.size is 10+"),
    ],
)
def test_absurd_values_are_refused_in_one_line(override, said, tmp_path):
    chosen = [*SMALL, "mechanism=mma_il", "lambda=0.2", f"cache={tmp_path}", override]
    with pytest.raises(UserError, match=said) as refused:
        train(configuration("train", *chosen), str(tmp_path / "run"))
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_a_model_beyond_the_memory_is_refused_with_both_sizes(tmp_path):
    vast = ["model.dim=65536", "model.ffn=65536", "model.encoder_layers=40"]
    chosen = [*SMALL, "mechanism=mma_il", "lambda=0.2", f"cache={tmp_path}", *vast]
    with pytest.raises(
        UserError,
        match=r"each of 1 processes has \S+ GiB of memory for them: lower",
    ):
        train(configuration("train", *chosen), str(tmp_path / "run"))
