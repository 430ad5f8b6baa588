"""The chapters of a report, one module per kind of results."""
