"""
A panel over time: eleven firms, twenty years
=============================================

Grunfeld's data: the investment of eleven firms, their value and their capital, from 1935 to 1954.
Rows of one firm are a time series, so that a fair test is on later years: `time` names the column,
and every model is scored on years after those that it was fitted to.
"""

import matplotlib.pyplot as plt
import statsmodels.api as sm

from crosslearning import CrossRegressor

firms = sm.datasets.grunfeld.load_pandas().data
firms["year"] = firms["year"].astype(int)
early, late = firms[firms["year"] <= 1950], firms[firms["year"] > 1950]

# %%
# One call tries pooled, separate and cross-learned models and says which to use.

columns = ["firm", "year", "value", "capital"]
model = CrossRegressor(task_column="firm", time="year", base="linear")
model.fit(early[columns], early["invest"])
model

# %%
# The last four years were kept away from the fit altogether. The intervals are for 90 %.

lower, upper = model.predict_interval(late[columns], coverage=0.9)
predicted = model.predict(late[columns])
inside = ((lower <= late["invest"]) & (late["invest"] <= upper)).mean()
print(f"inside their intervals: {inside:.0%} of {len(late)} firm-years")

# %%

figure, panels = plt.subplots(3, 4, figsize=(10, 6), sharex=True)
for axes, (firm, rows) in zip(panels.flat, firms.groupby("firm"), strict=False):
    axes.plot(rows["year"], rows["invest"], color="0.4")
    ahead = (late["firm"] == firm).to_numpy()
    years = late["year"][ahead]
    axes.fill_between(years, lower[ahead], upper[ahead], color="#c84c00", alpha=0.2)
    axes.plot(years, predicted[ahead], color="#c84c00")
    axes.set_title(firm, fontsize=9)
panels.flat[-1].set_axis_off()
figure.tight_layout()
plt.show()
