"""House prices by neighbourhood, as an ordinary scikit-learn pipeline.

25 neighbourhoods of Ames, Iowa, with 10 to 443 sales each. The column of the neighbourhood goes
through the pipeline untouched; the estimator finds it by its name. Half of the sales are for
training, and errors are those of the other half.

Run it with ``python examples/scikit_learn.py``.
"""

import numpy as np
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from crosslearning import CrossRidgeCV
from crosslearning.datasets import load_ames
from crosslearning.tasks import TaskIndex, within_task_folds


def pipeline(model):
    """Encode what is categorical, leave the rest alone, and end in the model."""
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

    label = "remainder__neighbourhood"  # as the column transformer calls it
    cross = CrossRidgeCV(n_epsilons=10, alphas=[10.0], task_column=label)
    cross = pipeline(cross).fit(X[train], sales.y[train])
    pooled = pipeline(RidgeCV(np.logspace(-1, 3, 9))).fit(sales.X[train], sales.y[train])

    print("Root mean squared error of log price, on sales not seen:")
    for name, predicted in [
        ("one model for all", pooled.predict(sales.X[~train])),
        ("cross-learned", cross.predict(X[~train])),
    ]:
        error = np.sqrt(np.mean((predicted - sales.y[~train]) ** 2))
        print(f"  {name:20} {error:.4f}")

    model = cross[-1]
    print("\nWhat cross-validation in the training half says (negative squared errors):")
    print(model.comparison_)
    farthest = model.forces_.argmax()
    print(f"\nHeld back most by the bound: {model.tasks_[farthest]}")
    new_place = X[~train].head(1).assign(neighbourhood="Newtown")
    print(f"A neighbourhood never seen gets the centre: {cross.predict(new_place)[0]:.2f}")


if __name__ == "__main__":
    main()
