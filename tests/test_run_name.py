"""Names of run directories."""

from __future__ import annotations

from simulmt.training.run_name import run_name, within


def test_order_and_logging_do_not_matter():
    one = run_name(["mechanism=mma_il", "lambda=0.2", "logger=wandb", "logger.mode=offline"])
    assert one == run_name(["lambda=0.2", "mechanism=mma_il"]) == "lambda-0.2+mechanism-mma_il"
    assert run_name(["ckpt_path=last", "trainer.progress=false", "sweep.retries=0"]) == "default"
    assert run_name(["trainer.log_every=5", "hydra/launcher=joblib", "cache=x"]) == "default"


def test_what_is_replaced_or_cut_does_not_collide():
    names = [run_name([f"data.root={root}"]) for root in ("/data/a", "data/a", "data-a")]
    names += [run_name([f"trainer.dal_range={chosen}"]) for chosen in ("[2,5]", "[2-5]")]
    names += [run_name([f"data.root={'x' * 300}{end}"]) for end in "ab"]
    assert len(set(names)) == len(names)
    assert all(len(name) <= 80 and not set(name) & set("=,/[] ") for name in names)


def test_a_path_is_its_last_part():
    text = ["data=text", "data.root=/a/long/path", "data.source=de", "data.target=en"]
    name = "data-text+data.root-path+data.source-de+data.target-en"
    assert run_name(text).rpartition("-")[0] == name
    assert run_name(["experiments=milk/table3"]).startswith("experiments-milk-table3-")


def test_a_long_name_begins_with_what_tells_runs_apart():
    sizes = [f"model.decoder.part{n}.size={n}" for n in range(30)]
    assert run_name([*sizes, "mechanism=milk", "lambda=0.2"]).startswith(
        "lambda-0.2+mechanism-milk+size-0+size-1+"
    )


def test_the_users_name_is_no_setting():
    assert run_name(["lambda=0.2", "name=mine"]) == "lambda-0.2"
    assert run_name(["lambda=0.2"], "mine") == "mine"
    assert (within("runs/x", None), within("runs/x", 7)) == ("runs/x", "runs/x/7")
