"""
Schools: partial pooling of 160 regressions
===========================================

The High School and Beyond survey of 1982 has 7,185 pupils of 160 schools. How does the score in
mathematics depend on the socioeconomic status of a family, and how much do schools differ? This is
the textbook case of a mixed model with random effects; see also "Coming from" in the guide.
"""

import matplotlib.pyplot as plt
import numpy as np

from crosslearning import CrossBayesianRidge, CrossRidgeCV, cross_ridge_path
from crosslearning.datasets import load_hsb82

pupils = load_hsb82()
pupils.frame.head()

# %%
# Learn how much schools differ
# -----------------------------
#
# The Bayesian estimator learns from the evidence (the marginal likelihood) how much the schools
# differ in each coefficient, and how much pupils of one school do. Nothing has to be tuned.

model = CrossBayesianRidge().fit(pupils.X, pupils.y, tasks=pupils.tasks)
model.summary()

# %%
# The columns ``task_sd`` are standard deviations between schools. Every school has its own line,
# which is drawn towards the centre the more, the fewer pupils it has.

status = np.array([-2.0, 2.0])
base = pupils.X.mean().to_numpy()
slope = list(pupils.X.columns).index("ses")
figure, axes = plt.subplots(figsize=(7, 4))
for intercept, coef in zip(model.intercept_, model.coef_, strict=True):
    rest = intercept + base @ coef - base[slope] * coef[slope]
    axes.plot(status, rest + coef[slope] * status, color="#c84c00", alpha=0.25, linewidth=0.8)
axes.set(xlabel="socioeconomic status", ylabel="predicted score in mathematics")
plt.show()

# %%
# Predictions with intervals, also for a school that nobody has seen
# ------------------------------------------------------------------

rows = pupils.X.head(1)
for school in (1224, 9999):  # the second is new
    lower, upper = model.predict_interval(rows, tasks=[school], coverage=0.9)
    print(f"school {school}: {lower[0]:.1f} to {upper[0]:.1f}")

# %%
# Does sharing help?
# ------------------
#
# The cross-validated estimator compares one model for all, one for each, and cross-learned models
# on held-out pupils. In a notebook, the comparison is the verdict, a table and a chart.

chosen = CrossRidgeCV(n_epsilons=6).fit(pupils.X, pupils.y, tasks=pupils.tasks)
chosen.comparison_

# %%
# From pooled to separate
# -----------------------
#
# The path shows the coefficient of socioeconomic status in every school, for all radii.

path = cross_ridge_path(pupils.X, pupils.y, pupils.tasks, n_epsilons=15)
path.plot(coefficient=slope)
