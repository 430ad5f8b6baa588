"""One module per figure or table of the paper: compute, store and draw are separate steps."""
