"""How hypothesis tries examples, in the tests of all packages."""

from hypothesis import HealthCheck, settings

# a busy machine must not fail a test
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
