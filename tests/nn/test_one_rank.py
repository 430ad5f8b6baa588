"""Models on a mesh of one rank in this process: the fast sister of `test_ranks`."""

import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

import torch.distributed as dist  # noqa: E402

from crosslearning.nn import _members  # noqa: E402
from tests.support.rank_program import CHECKS  # noqa: E402

NAMES = [
    "projection_is_bit_equal", "training", "shared", "start", "file", "not_finite",
    "loss_not_finite", "sharded", "sharded_not_finite", "shard_is_checked", "sharded_checkpoint",
]  # fmt: skip


@pytest.fixture(scope="module")
def group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("name", NAMES)
def test_one_rank_is_as_no_mesh(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_members, "_NARROWEST", 64)  # several chunks in small networks
    monkeypatch.setattr(_members, "_ELEMENTS", 4 * 64)
    CHECKS[name]()
