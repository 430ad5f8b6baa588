"""One module per kind of results: what the page says about it and which charts it shows."""
