"""Tasks spread over the ranks of `torchrun`: real processes, on gloo, on the loopback interface."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

from PIL import Image  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

from crosslearning.cli import main  # noqa: E402
from tests.support.killed_rank import STEPS, train  # noqa: E402

pytestmark = pytest.mark.slow  # processes of torch.distributed

ROOT = Path(__file__).parents[2]
TOGETHER = ["projection_is_bit_equal", "training"]
ON_2 = [
    *TOGETHER, "shared", "local_tasks", "start", "file", "not_finite", "loss_not_finite",
    "vmap", "uneven_batches", "stops_together", "mesh_is_checked", "sharded", "sharded_not_finite",
    "shard_is_checked", "data_elsewhere",
    "checkpoint", "sharded_checkpoint",
]  # fmt: skip
ON_4 = [*TOGETHER, "mesh_2_by_2", "own_loop_on_2_by_2", "sharded_on_2_by_2", "empty_shards"]


def torchrun(n_ranks, *arguments, restarts=0):
    """Run a module on ranks; whatever happens, none of them is left."""
    command = [
        *(sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={n_ranks}"),
        *("--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", f"--max-restarts={restarts}", "-m"),
        *map(str, arguments),
    ]
    settings = {
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # which keeps addresses of the dead
    }
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **settings}, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=300)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:  # as it should be
            stray = False
        else:
            stray = True
    assert process.returncode == 0, output
    assert not stray, output
    return output


@pytest.mark.parametrize(("n_ranks", "checks"), [(2, ON_2), (4, ON_4)], ids=["2", "4"])
def test_ranks(n_ranks, checks, tmp_path):
    output = torchrun(n_ranks, "tests.support.rank_program", tmp_path, *checks)
    for rank in range(n_ranks):
        outcomes = json.loads((tmp_path / f"{rank}.json").read_text())
        assert list(outcomes) == checks
        wrong = [text for text in outcomes.values() if text != "passed"]
        assert not wrong, f"rank {rank}: " + "\n".join(wrong) + output


def test_a_rank_that_is_killed(tmp_path):
    """Two ranks, of which one dies, resume and finish; a single rank then goes on."""
    for n_ranks, epochs, expected in [(2, 2, [1, 2 * STEPS - 3]), (1, 3, [0, STEPS])]:
        torchrun(n_ranks, "tests.support.killed_rank", tmp_path, epochs, restarts=1)
        assert json.loads((tmp_path / "steps.json").read_text()) == expected
        torch.set_num_threads(1)
        models, _ = train(epochs)
        found = load_file(tmp_path / "models.safetensors")
        for name, value in models.state_dict().items():
            assert torch.equal(found[name], value), name


def test_the_command_train(tmp_path, monkeypatch):
    """Results on two ranks are those of one process, written and told once."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    for domain in ("art", "photo", "sketch"):
        for channel, category in enumerate(("bed", "cup")):
            (tmp_path / "images" / domain / category).mkdir(parents=True)
            for number in range(10):
                pixels = rng.integers(0, 60, (8, 8, 3), dtype=np.uint8)
                pixels[:, :, channel] += 150
                path = tmp_path / "images" / domain / category / f"{number}.png"
                Image.fromarray(pixels).save(path)
    small = ["--model", "small_cnn", "--image-size", "8", "--epochs", "2", "--batch", "4"]
    command = ["train", str(tmp_path / "images"), *small, "--epsilon", "0.1", "--json", "--out"]
    printed = torchrun(2, "tests.support.command", *command, tmp_path / "two")
    assert printed.count('"chosen"') == 1
    assert main([*command, str(tmp_path / "one")]) == 0
    one, two = (json.loads((tmp_path / n / "results.json").read_text()) for n in ("one", "two"))
    for results in (one, two):
        del results["provenance"], results["created"]
    assert two == one
    files = [sorted(p.name for p in (tmp_path / n).rglob("*")) for n in ("one", "two")]
    assert files[0] == files[1]
