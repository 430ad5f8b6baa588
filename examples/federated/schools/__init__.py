"""Schools as clients of Flower: one model for each, none farther than ε from a common centre."""
