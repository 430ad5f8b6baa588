"""Tables in several files, damaged or not, and how models of them are compared."""

import numpy as np
import pandas as pd


def shops(rows=600, tasks=12, seed=0):
    """A table with numbers, gaps, categories, dates, and a target that differs by shop."""
    rng = np.random.default_rng(seed)
    task = rng.integers(tasks, size=rows)
    frame = pd.DataFrame(
        {
            "shop": [f"s{k:02d}" for k in task],
            "size": rng.normal(size=rows),
            "age": np.where(rng.random(rows) < 0.1, np.nan, rng.normal(size=rows)),
            "kind": rng.choice(["a", "b", "c"], size=rows),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(300, size=rows), "D"),
        }
    )
    slope = rng.normal(size=tasks)
    noise = 0.3 * rng.normal(size=rows)
    frame["sales"] = slope[task] * frame["size"] + (frame["kind"] == "a") + task + noise
    return frame


def written(frame, folder, parts=3):
    folder.mkdir(exist_ok=True)
    for k, part in enumerate(np.array_split(np.arange(len(frame)), parts)):
        frame.iloc[part].to_parquet(folder / f"part-{k}.parquet", index=False)
    return folder


def assert_same(one, other, tolerance=1e-8):
    for name in ("coef_", "intercept_", "center_coef_", "task_covariances_"):
        a, b = (model.state["fitted"][name] for model in (one, other))
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    assert one.state["fitted"]["tasks_"].tolist() == other.state["fitted"]["tasks_"].tolist()
    assert one.encoder == other.encoder


def scores(model):
    return {row["name"]: row["score"] for row in model.results["models"]}


def damaged(frame, folder, how):
    written(frame, folder)
    last = folder / "part-2.parquet"
    if how == "truncated":
        last.write_bytes(last.read_bytes()[:-100])
    elif how == "schema":
        frame.iloc[400:].assign(size="large").to_parquet(last, index=False)
    elif how == "lacking":
        frame.iloc[400:].drop(columns="size").to_parquet(last, index=False)
    elif how == "label":
        frame.iloc[400:].assign(shop=lambda f: f["shop"].where(f.index != 599)).to_parquet(last)
    elif how == "infinite":
        frame.iloc[400:].assign(size=lambda f: f["size"].where(f.index != 599, np.inf)).to_parquet(
            last
        )
    return folder


def sold(kind, rows=400, tasks=8):
    """Shops with a class, a number of several, or a count in place of sales."""
    frame = shops(rows, tasks).drop(columns="day")
    rng = np.random.default_rng(1)
    score = 0.3 * (frame["sales"] - frame["sales"].mean()) + rng.logistic(size=rows)
    if kind == "count":
        return frame.assign(sales=rng.poisson(np.exp(0.3 * score.clip(-4, 4))))
    if kind == "classes":
        return frame.assign(sales=np.array(["few", "many", "some"])[np.digitize(score, [-1, 1])])
    return frame.assign(sales=np.where(score > 0, "high", "low"))
