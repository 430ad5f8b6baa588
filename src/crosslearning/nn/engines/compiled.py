"""All tasks in one pass, compiled."""

from __future__ import annotations

import os
import shutil
from typing import Any

import torch

from crosslearning.nn.engines.vmap import VmapEngine

__all__ = ["CompiledEngine"]

_COMPILERS = ("c++", "g++", "clang++", "cl")


class CompiledEngine(VmapEngine):
    """As :class:`VmapEngine`, through ``torch.compile``: slow to start, then faster."""

    def __init__(self, *args: Any) -> None:
        found = [shutil.which(name) for name in (os.environ.get("CXX", ""), *_COMPILERS)]
        if not any(found):
            raise ValueError(
                "engine='compiled' needs a C++ compiler, and there is none on the path. Install "
                "one, name it in the variable CXX, or use engine='vmap'."
            )
        super().__init__(*args)
        self.losses = torch.compile(self.losses)
