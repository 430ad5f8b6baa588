"""Run checks on every rank of a `torchrun`, in a folder that all of them share.

``torchrun … -m tests.support.rank_program FOLDER NAME…`` runs the checks of these names in turn.
Every rank leaves a file in FOLDER that says, for each, "passed" or what went wrong.
"""

import json
import os
import sys
import traceback
import warnings
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from crosslearning.nn import _members
from tests.support import rank_checks, shard_checks

CHECKS = {
    name.removeprefix("check_"): check
    for name, check in {**vars(rank_checks), **vars(shard_checks)}.items()
    if name.startswith("check_")
}


def main(folder, names):
    os.chdir(folder)  # where checks leave their files
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    _members._NARROWEST, _members._ELEMENTS = 64, 4 * 64  # several chunks in small networks
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))
    outcomes = {}
    for name in names:
        try:
            CHECKS[name]()
            outcomes[name] = "passed"
        except Exception:
            outcomes[name] = traceback.format_exc()
    Path(f"{os.environ['RANK']}.json").write_text(json.dumps(outcomes))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
