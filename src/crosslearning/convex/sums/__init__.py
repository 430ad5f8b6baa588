"""Rows, and sums over the rows of each task that can replace them.

Legend
------
X, columns : features as given, and scaled ones followed by ones for the intercept.
θ_i, thetas : parameters of task i, a matrix (columns, scores), flattened; (n_tasks, n_parameters).
A_i, b_i : curvature of a task's log likelihood, and A_iθ_i plus its slope; for least squares XᵀX
    and Xᵀy. `products` border A_i by b_i and yᵀy.
K_i, covariances : posterior covariances of θ_i.
"""
