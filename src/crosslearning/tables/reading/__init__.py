"""From files to data frames, and back: formats, dialects, numerals, chunks."""
