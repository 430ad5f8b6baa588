"""The commands fit and predict for groups within groups."""

import json

import numpy as np
import pandas as pd

from crosslearning.cli import main


def test_several_task_columns_from_fit_to_prediction(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    district, school = (part.ravel() for part in np.indices((6, 3, 12))[:2])
    level = (2 * rng.normal(size=6))[district]
    pupils = pd.DataFrame({"district": district, "school": school, "ses": rng.normal(size=216)})
    pupils = pupils.assign(math=pupils["ses"] + level + rng.normal(size=216))
    pupils.to_csv("pupils.csv", index=False)
    (tmp_path / "fit.toml").write_text('task = ["district", "school"]\nbase = "linear"\n')
    fit = ["fit", "pupils.csv", "--target", "math", "--family", "gaussian", "-o", "model"]
    assert main([*fit, "--config", "fit.toml"]) == 0
    printed = capsys.readouterr().out
    for text in (
        "math by school in district: regression",
        "nested cross-learned",
        "Groups by district differ (standard deviations, in math): level",
        "Tasks within groups by district d",  # differ, or do not differ
        "(intercept)",
    ):
        assert text in printed
    page = (tmp_path / "model" / "report.html").read_text(encoding="utf-8")
    assert "Between the 6 groups by district, the level differs by a standard deviation" in page
    assert "Coefficients of the centre in units of the table" in page
    new = pd.DataFrame({"district": [0, 0, 9], "school": [0, 7, 0], "ses": 0.0})
    new.to_csv("new.csv", index=False)
    assert main(["predict", "model", "new.csv", "-o", "predicted.csv", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert {one["task"] for one in summary["unknown"]} == {"0 / 7", "9 / 0"}
    assert pd.read_csv("predicted.csv")["std"].is_monotonic_increasing
    assert main([*fit, "--task", "district", "--task", "district"]) == 2
    assert "Option task must name at least one column, each once" in capsys.readouterr().err
