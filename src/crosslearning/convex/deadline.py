"""A moment at which fits in progress are given up."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf

_moment: ContextVar[float] = ContextVar("deadline", default=inf)


class OutOfTimeError(Exception):
    """A fit was given up at its deadline."""


@contextmanager
def deadline(moment: float) -> Iterator[None]:
    """Give up fits that are in progress at this moment of `time.monotonic`."""
    token = _moment.set(moment)
    try:
        yield
    finally:
        _moment.reset(token)


def check_deadline() -> None:
    """Raise `OutOfTimeError` after the deadline; iterative fits call this once a step."""
    if time.monotonic() > _moment.get():
        raise OutOfTimeError
