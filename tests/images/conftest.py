import pytest

from tests.support.image_training import SMALL, Squares, train


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A sweep, its folder, and the progress it reported."""
    pytest.importorskip("torch", reason="the extra `torch` is not installed")
    folder, seen = tmp_path_factory.mktemp("finished"), []
    results = train(SMALL, Squares(), folder, name="squares", progress=seen.append, command="typed")
    return folder, results, seen
