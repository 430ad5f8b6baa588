"""Convex losses under a tether, and the evidence for how much tasks differ. Numpy and scipy only.

``families`` are distributions of the target, ``sums`` what one pass over rows keeps, ``evidence``
learns variances between tasks, ``solver`` finds exact solutions under a tether, and ``predict``
serves estimators and stored models alike. Each uses only those before it.
"""
