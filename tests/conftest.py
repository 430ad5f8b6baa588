import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from hypothesis import settings

settings.register_profile("default", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("default")
