"""
Intervals for a new hospital
============================

A model was fitted to a hundred hospitals. What does it say about the patients of a hospital that it
has never seen? The interval must hold what differs between hospitals as well as what differs
between patients. (The hospitals are simulated, so that the coverage can be counted.)
"""

import matplotlib.pyplot as plt
import numpy as np

from crosslearning import CrossBayesianRidge

rng = np.random.default_rng(0)


def patients(hospitals, of_each, start=0):
    """Simulate age, hospital and days in bed; hospitals differ in level and in slope."""
    level, slope = rng.normal(8.0, 1.5, hospitals), rng.normal(1.0, 0.4, hospitals)
    codes = np.repeat(np.arange(hospitals), of_each)
    age = rng.normal(size=codes.size)
    days = level[codes] + slope[codes] * age + rng.normal(0.0, 1.0, codes.size)
    return age[:, None], days, codes + start


X, days, hospital = patients(100, 10)
model = CrossBayesianRidge().fit(X, days, tasks=hospital)
model.summary()

# %%
# Count on 500 new hospitals
# --------------------------
#
# An unknown label is a new task: it is predicted by the centre, and the differences between
# hospitals widen its interval.

X_new, days_new, new = patients(500, 20, start=1000)
for coverage in (0.5, 0.8, 0.9, 0.95):
    lower, upper = model.predict_interval(X_new, tasks=new, coverage=coverage)
    inside = (lower <= days_new) & (days_new <= upper)
    print(f"{coverage:.0%} intervals hold {inside.mean():.1%} of new patients")

# %%
# A few patients change that
# --------------------------
#
# `fit_task` fits one hospital near the centre, which stays where it is. After a few patients, the
# interval is hardly wider than that of a hospital with many.

widths = []
rows = new == 1000
for n in (1, 2, 5, 10, 20):
    known = model.fit_task(X_new[rows][:n], days_new[rows][:n], task=1000)
    lower, upper = known.predict_interval([[0.0]], tasks=[1000], coverage=0.9)
    widths.append((n, lower[0], upper[0]))
lower, upper = model.predict_interval([[0.0]], tasks=[1000], coverage=0.9)
widths.insert(0, (0, lower[0], upper[0]))

figure, axes = plt.subplots(figsize=(6, 3.5))
for place, (_, low, high) in enumerate(widths):
    axes.plot([place, place], [low, high], color="#c84c00", linewidth=4)
axes.set_xticks(range(len(widths)), [str(n) for n, *_ in widths])
axes.set(xlabel="patients seen of the new hospital", ylabel="days in bed, 90 % interval")
figure.tight_layout()
plt.show()

# %%
# Fewer hospitals
# ---------------
#
# How much hospitals differ is itself an estimate, and the intervals take it as known. With 40
# hospitals instead of 100, coverage depends more on which they are: it can be several points off,
# to either side.

shares = []
for _ in range(6):
    X, days, hospital = patients(40, 25)
    few = CrossBayesianRidge().fit(X, days, tasks=hospital)
    lower, upper = few.predict_interval(X_new, tasks=new, coverage=0.9)
    shares.append(np.mean((lower <= days_new) & (days_new <= upper)))
print("90% intervals, six draws of 40 hospitals:", " ".join(f"{share:.0%}" for share in shares))
