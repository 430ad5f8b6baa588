"""
Counts: accidents at thirty junctions
=====================================

Rates of rare events in many places: small places have few events, and their own rate is mostly
noise. (The junctions are simulated, so that we know the true rates.)
"""

import matplotlib.pyplot as plt
import numpy as np

from crosslearning import CrossBayesianGLM

rng = np.random.default_rng(0)
junctions, weeks = 30, 12
level = rng.normal(0.0, 0.6, junctions)  # log rate of each junction
tasks = np.repeat(np.arange(junctions), weeks)
rain = rng.normal(size=tasks.size)  # the same effect everywhere
cars = rng.uniform(0.2, 3.0, junctions)[tasks]  # thousands per week
accidents = rng.poisson(cars * np.exp(0.3 * rain + level[tasks]))

# %%
# The number of cars is an exposure: twice as many cars, twice as many accidents. Its logarithm is
# the offset of each row.

model = CrossBayesianGLM("poisson")
model.fit(rain[:, None], accidents, tasks=tasks, sample_offset=np.log(cars))
model.summary()

# %%
# Rates of the junctions
# ----------------------
#
# The rate of a junction alone is its number of accidents by its number of cars. It is 0 where
# nothing happened in twelve weeks, which nobody would believe.

events = np.bincount(tasks, accidents)
alone = events / np.bincount(tasks, cars)
shared = np.exp(model.intercept_)
truth = np.exp(level)
for name, rates in {"alone": alone, "shared": shared}.items():
    print(f"{name:7} mean absolute error of the rate: {np.abs(rates - truth).mean():.3f}")

figure, axes = plt.subplots(figsize=(5, 4.5))
axes.plot([0, truth.max()], [0, truth.max()], color="0.6", linewidth=1)
axes.plot(truth, alone, "o", color="#0067a8", markerfacecolor="none", label="alone")
axes.plot(truth, shared, "o", color="#c84c00", label="shared")
axes.set(xlabel="true rate", ylabel="estimated rate")
axes.legend()
plt.show()
