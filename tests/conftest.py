import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ["FLWR_TELEMETRY_ENABLED"] = "0"

from hypothesis import settings

settings.register_profile("default", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("default")
