"""One module per chart; each returns a Vega-Lite specification."""
