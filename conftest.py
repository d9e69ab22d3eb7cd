"""How the tests of all packages run: what hypothesis tries, who compiles kernels."""

import os

from hypothesis import HealthCheck, settings

# a busy machine must not fail a test
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# tests run side by side already, and each compiles a few kernels at a time
os.environ.setdefault("RASE_COMPILE_PROCESSES", "1")
