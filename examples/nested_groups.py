"""
Groups within groups: schools in districts
==========================================

Schools of one district are alike, and districts are. Pass both columns as `tasks`, outermost first:
each level has its own variance. (The pupils are simulated, so that we know what is true.)
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from crosslearning import CrossBayesianRidge

rng = np.random.default_rng(0)
rows = []
for district in range(15):
    common = rng.normal(50.0, 4.0)  # districts differ by 4
    for school in range(6):
        level = common + rng.normal(0.0, 2.0)  # schools of a district by 2
        for _ in range(12):
            status = rng.normal()
            score = level + 3.0 * status + rng.normal(0.0, 6.0)
            rows.append((f"district {district}", school, status, score))
pupils = pd.DataFrame(rows, columns=["district", "school", "status", "score"])

# %%
# The summary has a standard deviation for each level. The truth is 4 between districts, 2 between
# the schools of a district, and 6 between the pupils of a school.

model = CrossBayesianRidge(task_column=["district", "school"])
model.fit(pupils[["district", "school", "status"]], pupils["score"])
model.summary()

# %%
# A known school, a new school of a known district, a new district
# ----------------------------------------------------------------
#
# The less is known about a place, the wider the interval.

places = pd.DataFrame(
    [("district 3", 2, 0.0), ("district 3", 99, 0.0), ("elsewhere", 0, 0.0)],
    columns=["district", "school", "status"],
)
mean, std = model.predict(places, return_std=True)
names = ["known school", "new school,\nknown district", "new district"]
figure, axes = plt.subplots(figsize=(6, 3))
axes.errorbar(mean, names, xerr=1.645 * std, fmt="o", color="#c84c00", capsize=4)
axes.set(xlabel="score of a pupil, 90 % interval")
axes.invert_yaxis()
figure.tight_layout()
plt.show()
