"""Convex losses under a tether, solved exactly by an augmented Lagrangian method.

Its smooth subproblems are solved by semismooth Newton steps. Needs only numpy and scipy.
"""
