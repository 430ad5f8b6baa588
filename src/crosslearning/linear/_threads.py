"""One BLAS thread for work on many small matrices."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread: on small matrices threads mostly wait for each other."""
    with _libraries().limit(limits=1, user_api="blas"):
        yield
