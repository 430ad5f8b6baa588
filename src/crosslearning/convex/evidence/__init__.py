"""How much tasks differ: variances that maximise the evidence, and the posterior.

Legend
------
θ_i = β + δ_i : parameters of task i around the centre β; δ_i ~ N(0, Σ), β_j ~ N(0, τ²_j).
σ², S, t : variance of the noise, and Σ and τ² in units of it. `ratio` holds t, `precision` 1 / t.
L, root : a square root of S; a vector stands for a diagonal matrix.
A_i, b_i, Z_iᵀZ_i : as in `sums`. V_i : covariance of δ_i given β, L (I + LᵀA_iL)⁻¹ Lᵀ.
W_i, information : what task i says about β, A_i - A_i V_i A_i; bordered by the targets.
C : posterior covariance of β. P_i = W_i - W_i C W_i : what task i says about δ_i.
g_i, residuals : gradient of a task's loss at its posterior mean, S⁻¹ times the mean of δ_i.
"""
