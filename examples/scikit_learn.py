"""
House prices: a scikit-learn pipeline
=====================================

House prices by neighbourhood, as an ordinary scikit-learn pipeline.

25 neighbourhoods of Ames, Iowa, with 10 to 443 sales each. The neighbourhood column passes through
the pipeline unchanged; the estimator finds it by name. Half of the sales are used for training,
the other half for testing.

Run it with ``python examples/scikit_learn.py``.
"""

# sphinx_gallery_thumbnail_path = '_static/figures/choice.svg'

import numpy as np
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from crosslearning import CrossRidgeCV
from crosslearning.datasets import load_ames
from crosslearning.tasks import TaskIndex, within_task_folds


def pipeline(model):
    """Encode categorical columns, pass the rest through, and end with the model."""
    categories = make_column_selector(dtype_include="category")
    encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    columns = make_column_transformer((encoder, categories), remainder="passthrough")
    return make_pipeline(columns.set_output(transform="pandas"), model)


def main() -> None:
    """Fit, compare, and look at one neighbourhood."""
    sales = load_ames()
    X = sales.X.assign(neighbourhood=sales.tasks)
    _, codes = TaskIndex.of(sales.tasks)
    train = within_task_folds(codes, n_splits=2, seed=0) == 0

    label = "remainder__neighbourhood"  # the column transformer's name for it
    cross = CrossRidgeCV(n_epsilons=10, alphas=[10.0], task_column=label)
    cross = pipeline(cross).fit(X[train], sales.y[train])
    pooled = pipeline(RidgeCV(np.logspace(-1, 3, 9))).fit(sales.X[train], sales.y[train])

    print("Root mean squared error of the log price on held-out sales:")
    for name, predicted in [
        ("one model for all", pooled.predict(sales.X[~train])),
        ("cross-learned", cross.predict(X[~train])),
    ]:
        error = np.sqrt(np.mean((predicted - sales.y[~train]) ** 2))
        print(f"  {name:20} {error:.4f}")

    model = cross[-1]
    print("\nCross-validation in the training half (negative mean squared errors):")
    print(model.comparison_)
    farthest = model.forces_.argmax()
    print(f"\nHeld back most by the bound: {model.tasks_[farthest]}")
    new_place = X[~train].head(1).assign(neighbourhood="Newtown")
    print(f"A new neighbourhood is predicted by the centre: {cross.predict(new_place)[0]:.2f}")


if __name__ == "__main__":
    main()
