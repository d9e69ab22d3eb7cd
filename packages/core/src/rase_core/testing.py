"""A decoder without a model, for tests of everything that drives one."""
