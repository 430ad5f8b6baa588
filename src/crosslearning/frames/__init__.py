"""From files to data frames, from data frames to numbers, and back. Models are not known here."""
