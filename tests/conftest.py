import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ["FLWR_TELEMETRY_ENABLED"] = "0"

from hypothesis import settings

# `make test` takes a quarter of the examples that `make test-all` takes.
settings.register_profile("thorough", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("quick", settings.get_profile("thorough"), max_examples=25)
settings.load_profile("quick")
