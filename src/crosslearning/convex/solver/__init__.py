"""Losses × tether × metric: the convex problem and its exact solution.

Legend
------
f_i, θ_i, c : loss and parameters of task i, one of N with P parameters, and the centre.
h, λ_i, forces : law of the tether by the distance ‖θ_i - c‖, and the multipliers: forces of tasks.
σ_i, e_i : strength of the augmented Lagrangian, and the envelope of h / σ_i.
A_i, E_i : Hessians of f_i and of the envelope.
M, u : a change of variables, θ = M u, in which a metric is the plain one.
"""
