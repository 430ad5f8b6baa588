"""The server: it sees parameters but no rows."""

import json
from pathlib import Path

from flwr.serverapp import ServerApp

from crosslearning.federated import CrossLearning, parameters_of
from schools.client import make_model

app = ServerApp()


@app.main()
def main(grid, context):
    """Train for some rounds and write the result."""
    settings = context.run_config
    strategy = CrossLearning(
        epsilon=settings["epsilon"],
        checkpoint=settings["checkpoint"] or None,
        fraction_evaluate=settings["fraction-evaluate"],
        min_available_nodes=settings["clients"],
        min_train_nodes=1,
        min_evaluate_nodes=1,
    )
    result = strategy.start(
        grid,
        parameters_of(make_model()),
        num_rounds=settings["rounds"],
        timeout=settings["timeout"],
    )
    if settings["result"]:
        center = {name: array.numpy().tolist() for name, array in result.arrays.items()}
        content = {"center": center, "distances": strategy.distances}
        Path(settings["result"]).write_text(json.dumps(content))
