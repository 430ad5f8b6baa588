"""From data frames to numbers: what columns hold, the target, the encoder, labels of tasks."""
