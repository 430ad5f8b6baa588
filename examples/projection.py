"""
The projection in the plane
===========================

Six tasks have two parameters each. `project` moves them, and a common centre, as little as
possible until none is farther than ε from the centre. It is one joint problem: the centre is not
the mean of the tasks, and a task inside the ball moves, too, if the centre does.
"""

import matplotlib.pyplot as plt
import numpy as np

from crosslearning import project, smallest_enclosing_ball

tasks = np.array([[0.0, 2.1], [1.9, 1.2], [2.3, -0.9], [0.5, -0.4], [-1.2, -1.8], [-2.2, 0.6]])

# %%
# One call, and its certificate
# -----------------------------
#
# The result carries the size of its own error. The residual of the optimality conditions is
# relative, and at the level of rounding.

result = project(tasks, epsilon=1.0)
print("distances to the centre:", result.distances.round(3))
print("at the bound:           ", result.active)
print(f"optimality residual:     {result.kkt_residual:.0e}")

# %%
# From one point to six
# ---------------------
#
# With ε = 0 all tasks share one point, their mean. At the radius of the smallest ball that
# holds all tasks, the bound lets go, and they are separate.

_, largest = smallest_enclosing_ball(tasks)
radii = [0.0, 0.5, 1.0, 1.5, 2.0, largest]
figure, panels = plt.subplots(2, 3, figsize=(9, 6), sharex=True, sharey=True)
for axes, epsilon in zip(panels.flat, radii, strict=True):
    result = project(tasks, epsilon)
    for before, after in zip(tasks, result.thetas, strict=True):
        axes.plot(*np.stack([before, after]).T, color="0.6", linewidth=0.8)
    axes.plot(*tasks.T, "o", color="0.5", markerfacecolor="none")
    axes.plot(*result.thetas.T, "o", color="#c84c00")
    axes.plot(*result.center, "x", color="black")
    axes.add_patch(plt.Circle(result.center, epsilon, color="#c84c00", alpha=0.1))
    axes.set(title=f"ε = {epsilon:.2f}", aspect="equal", xticks=[], yticks=[])
figure.tight_layout()
plt.show()

# %%
# The forces balance
# ------------------
#
# Tasks pull at the centre, and the centre pulls at them. It is free to go where the pulls balance,
# so that the moves of the tasks add up to nothing, and their mean stays where it was.

result = project(tasks, epsilon=1.0)
print("sum of the moves:", (result.thetas - tasks).sum(axis=0).round(12) + 0.0)
