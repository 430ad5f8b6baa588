"""Inner products by either way of multiplying are those of the definition."""

import numpy as np
import pytest

from crosslearning.coupling import _inner_products
from crosslearning.coupling._inner_products import PIECE, InnerProducts, symmetric


@pytest.mark.parametrize("small", [False, True], ids=["whole", "bands"])
@pytest.mark.parametrize("n", [1, 2, 4, 5, 9, 130])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_of_the_columns_in_use(small, n, dtype, monkeypatch):
    monkeypatch.setattr(_inner_products, "_has_small_kernels", lambda: small)
    rng = np.random.default_rng(n)
    buffer = np.zeros((n + 1, 2 * PIECE), dtype)
    products = InnerProducts(buffer)
    for width in (2 * PIECE, 700):
        rows = rng.normal(size=(n, width))
        buffer[:n, :width] = rows
        buffer[n] = 7.0  # spare
        gram = symmetric(products.upper(width))
        tolerance = 1e3 * np.finfo(dtype).eps
        np.testing.assert_allclose(gram, rows @ rows.T, atol=tolerance * width**0.5)
        np.testing.assert_array_equal(gram, gram.T)


def test_kernels_are_those_that_blas_names(monkeypatch):
    def loaded(*names):
        blas = [{"user_api": "openmp"}, *({"architecture": name} for name in names)]
        monkeypatch.setattr("threadpoolctl.threadpool_info", lambda: blas)
        _inner_products._has_small_kernels.cache_clear()
        return _inner_products._has_small_kernels()

    assert not loaded()
    assert not loaded("Haswell")
    assert loaded("SkylakeX")
    _inner_products._has_small_kernels.cache_clear()
