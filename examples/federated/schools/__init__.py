"""Schools as clients of Flower: one model for each, all within ε of a common centre."""
