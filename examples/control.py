"""
Control: policies for eight plants by policy gradient
=====================================================

Eight plants of one kind differ a little. Each is known only from a short record, and needs a
linear policy u = -K x. A policy that is optimal for a poor estimate of a plant is poor on the
plant. Policies that stay close to each other average the errors of the estimates. This is
constrained multi-task policy optimisation in the spirit of cross-learning's authors, small enough
to see all of it: costs and gradients come from Lyapunov equations. (The plants are simulated. The
length and the noise of the records were set after other values had been tried, so that both ends
are stable and sharing matters. This is one draw, an illustration and not a measurement.)
"""

import math

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import solve_discrete_are, solve_discrete_lyapunov

from crosslearning import project

rng = np.random.default_rng(0)
plants, samples = 8, 12
A0 = np.array([[1.0, 0.2, 0.0], [0.0, 1.0, 0.2], [0.1, 0.0, 0.9]])
B0 = np.array([[0.0], [0.1], [0.4]])
A = A0 + 0.03 * rng.normal(size=(plants, 3, 3))
B = B0 + 0.03 * rng.normal(size=(plants, 3, 1))
Q, R = np.eye(3), 0.5 * np.eye(1)

# %%
# Identify every plant from a few noisy steps.

estimates = []
for a, b in zip(A, B, strict=True):
    x, u = rng.normal(size=(samples, 3)), rng.normal(size=(samples, 1))
    after = x @ a.T + u @ b.T + 0.14 * rng.normal(size=(samples, 3))
    solution = np.linalg.lstsq(np.hstack([x, u]), after, rcond=None)[0].T
    estimates.append((solution[:, :3], solution[:, 3:]))

# %%
# Cost and gradient of a policy
# -----------------------------
#
# With noise of unit variance in every state, the average cost of K is the trace of P, which solves
# P = Q + K'RK + (A - BK)'P(A - BK).


def cost(a, b, policy):
    """Average cost of a policy; infinite if it does not stabilise the plant."""
    closed = a - b @ policy
    if np.abs(np.linalg.eigvals(closed)).max() >= 1:
        return math.inf
    return np.trace(solve_discrete_lyapunov(closed.T, Q + policy.T @ R @ policy))


def gradient(a, b, policy):
    """Gradient of the cost."""
    closed = a - b @ policy
    value = solve_discrete_lyapunov(closed.T, Q + policy.T @ R @ policy)
    visits = solve_discrete_lyapunov(closed, np.eye(3))
    return 2 * ((R + b.T @ value @ b) @ policy - b.T @ value @ a) @ visits


def riccati(a, b):
    """Return the best policy of a plant."""
    value = solve_discrete_are(a, b, Q, R)
    return np.linalg.solve(R + b.T @ value @ b, b.T @ value @ a)


def train(epsilon, steps=150, rate=3e-3):
    """Follow the gradients of the estimated plants, and project after every step."""
    start = riccati(*(np.mean(part, axis=0) for part in zip(*estimates, strict=True)))
    policies = np.repeat(start, plants, axis=0)
    for _ in range(steps):
        slopes = [gradient(a, b, k[None]) for (a, b), k in zip(estimates, policies, strict=True)]
        slopes = np.concatenate(slopes)
        length = np.linalg.norm(slopes, axis=1, keepdims=True)
        policies = policies - rate * slopes / np.maximum(length / 30, 1)  # no step is too long
        policies = project(policies, epsilon).thetas
    return policies


# %%
# Costs on the true plants, compared with the best that one can do on each.

best = [cost(a, b, riccati(a, b)) for a, b in zip(A, B, strict=True)]
radii = [0.0, 0.05, 0.1, 0.2, 0.4, math.inf]
excess = []
for epsilon in radii:
    costs = [cost(a, b, k[None]) for a, b, k in zip(A, B, train(epsilon), strict=True)]
    excess.append(np.mean(costs) / np.mean(best) - 1)
    print(f"epsilon {epsilon:<5} cost above the optimum: {excess[-1]:.1%}")

figure, axes = plt.subplots(figsize=(6.5, 4))
names = ["0\n(one policy)", *map(str, radii[1:-1]), "∞\n(separate)"]
axes.plot(names, 100 * np.array(excess), "o-", color="#c84c00")
axes.set(xlabel="ε", ylabel="cost above the optimum, %")
figure.tight_layout()
plt.show()
