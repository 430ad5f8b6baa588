"""The recipe for Spark in the documentation: sums of partitions are those of the table."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from crosslearning import Statistics

RECIPE = Path(__file__).parents[2] / "docs" / "large.md"


def blocks():
    return re.findall(r"```python\n(.*?)```", RECIPE.read_text(), re.DOTALL)


def shops():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 3)), columns=["price", "size", "revenue"])
    return frame.assign(shop=rng.integers(7, size=300))


def check(names):
    frame = shops()
    whole = Statistics.of(frame[["price", "size"]], frame["revenue"], frame["shop"])
    assert names["total"].n_rows == 300
    np.testing.assert_allclose(names["total"].cells.scatters, whole.cells.scatters)
    assert names["model"].coef_.shape == (7, 2)


class Partitions:
    """What the recipe uses of a Spark data frame."""

    def __init__(self, frames):
        self.frames, self.found = frames, []

    def mapInArrow(self, function, schema):  # noqa: N802
        import pyarrow as pa

        assert schema == "sums binary"
        for frame in self.frames:
            batches = pa.Table.from_pandas(frame).to_batches(max_chunksize=40)
            self.found += [row for out in function(iter(batches)) for row in out.to_pylist()]
        return self

    def toLocalIterator(self):  # noqa: N802
        return iter(self.found)


def test_the_recipe_adds_up_partitions():
    (recipe,) = (block for block in blocks() if "mapInArrow" in block)
    frame = shops()
    names = {"table": Partitions([frame.iloc[:100], frame.iloc[100:], frame.iloc[:0]])}
    exec(recipe, names)
    check(names)


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support:FutureWarning")
def test_the_recipe_runs_in_spark(monkeypatch):
    pyspark = pytest.importorskip("pyspark", reason="Spark (400 MB and Java) is not installed")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    (recipe,) = (block for block in blocks() if "mapInArrow" in block)
    builder = pyspark.sql.SparkSession.builder.master("local[2]")
    local = {"spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}
    session = builder.config(map=local).getOrCreate()
    try:
        names = {"table": session.createDataFrame(shops()).repartition(3)}
        exec(recipe, names)
        check(names)
    finally:
        session.stop()
