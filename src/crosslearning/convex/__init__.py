"""Convex losses under a tether, solved exactly: numpy and scipy only.

A loss per task, a tether per block of parameters, and an augmented Lagrangian whose smooth
problems are solved by semismooth Newton steps.
"""
