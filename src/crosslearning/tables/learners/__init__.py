"""What is tried on a table: learners at their ends, and the choice among them."""
