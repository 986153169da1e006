"""Names of a training's files that are read with torch; who only looks for a file does without it."""

from __future__ import annotations

CHECKPOINT = "checkpoint.pt"  # to go on with a training (trainer.checkpoint)
WEIGHTS = "weights.pt"  # the models of a finished one (trainer.policy_file)
