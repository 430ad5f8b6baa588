"""
Federated: ten clients whose rows stay at home
==============================================

Personalised federated learning trains one model per client, on rows that never leave it. For
linear models one round is enough: every client sends sums, and the fit from the sums is that from
all rows. For other models the clients take steps, and the server projects. (The rows are
simulated; `examples/federated` is the same over a real Flower server.)
"""

import matplotlib.pyplot as plt
import numpy as np

from crosslearning import CrossRidge, project
from crosslearning.convex.sums.statistics import Statistics

rng = np.random.default_rng(0)
clients = range(10)
truth = np.array([1.0, -2.0, 0.5]) + 0.3 * rng.normal(size=(10, 3))
X = rng.normal(size=(10, 12, 3))
y = np.einsum("krj,kj->kr", X, truth) + rng.normal(size=(10, 12))

# %%
# One round of sums
# -----------------
#
# A client sends counts, means and scatter matrices, not rows. The server adds them up.

sums = [Statistics.of(X[k], y[k], [k] * 12) for k in clients]
total = sums[0]
for other in sums[1:]:
    total = total + other
federated = CrossRidge(epsilon=0.5).fit_statistics(total)
central = CrossRidge(epsilon=0.5).fit(X.reshape(-1, 3), y.ravel(), tasks=np.repeat(clients, 12))
print("largest difference to a fit of all rows:", np.abs(federated.coef_ - central.coef_).max())

# %%
# Rounds of steps
# ---------------
#
# Any model with a gradient: clients step, the server moves all of them, and their centre, to the
# nearest point within ε. The centre is the model for new clients.


def rounds(epsilon, n=60):
    """Let clients take gradient steps, and project after each."""
    models = np.zeros((10, 3))
    errors = []
    for _ in range(n):
        residuals = np.einsum("krj,kj->kr", X, models) - y
        models = models - 0.1 * np.einsum("krj,kr->kj", X, residuals) / 12
        models = project(models, epsilon).thetas
        errors.append(np.mean((models - truth) ** 2))
    return errors


figure, axes = plt.subplots(figsize=(6.5, 4))
settings = {"one model (FedAvg)": (0.0, "0.4"), "within ε": (0.5, "#c84c00")}
settings["one for each"] = (np.inf, "#0067a8")
for name, (epsilon, color) in settings.items():
    errors = rounds(epsilon)
    print(f"{name:20} {errors[-1]:.3f}")
    axes.plot(errors, color=color, label=name)
axes.set(xlabel="round", ylabel="squared error of the parameters", yscale="log")
axes.legend()
plt.show()
