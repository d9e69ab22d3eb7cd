"""Every check of the project: `nox -l` lists them, `nox` runs the default ones."""

import sys
from pathlib import Path

import nox

nox.needs_version = ">=2024.10.9"
nox.options.default_venv_backend = "uv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "types", "imports", "tests"]

PACKAGES = ("core", "models", "api", "cli")
SOURCES = [f"packages/{name}/src/rase_{name}" for name in PACKAGES]
TESTS = [*(f"packages/{name}/tests" for name in PACKAGES), "tests"]
SCRIPTS = [".", "benchmarks", "docs"]
"""The folders outside of packages whose own files are checked, too."""

SYNC_EXTRAS = {"core": (), "models": ("--extra", "cpu"), "api": (), "cli": ("--extra", "serve")}
"""The extras that a package's own tests need."""

EDITABLES = {
    "core": ("packages/core",),
    "models": ("packages/core", "packages/models[cpu]"),
    "api": ("packages/core", "packages/models[cpu]", "packages/api"),
    "cli": ("packages/core", "packages/models[cpu]", "packages/api", "packages/cli[serve]"),
}
"""A package and those of the workspace that it needs, as pip requirements."""


def sync(session: nox.Session, *arguments: str) -> None:
    """Install what uv.lock says into the session's environment, and nothing else."""
    environment = {"UV_PROJECT_ENVIRONMENT": session.virtualenv.location}
    session.run_install("uv", "sync", "--locked", "--quiet", *arguments, env=environment, external=True)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and formatting."""
    sync(session, "--only-group", "lint")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Check types, strictly."""
    sync(session, "--all-packages")
    scripts = [str(path) for folder in SCRIPTS for path in sorted(Path(folder).glob("*.py"))]
    session.run("mypy", *SOURCES, *TESTS, *scripts)


@nox.session
def imports(session: nox.Session) -> None:
    """Check that imports flow one way and that compute libraries stay under their backend."""
    sync(session, "--all-packages")
    session.run("lint-imports")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the whole suite."""
    sync(session, "--all-packages")
    session.run("pytest", *session.posargs)


@nox.session
def slow(session: nox.Session) -> None:
    """Run the tests that take long."""
    sync(session, "--all-packages")
    session.run("pytest", "-m", "slow", *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """Run the suites of core and models and report the lines that they reach."""
    sync(session, "--all-packages")
    session.run("coverage", "erase")
    session.run("coverage", "run", "-m", "pytest", "-n", "0", "packages/core", "packages/models")
    session.run("coverage", "combine", success_codes=[0, 1])
    session.run("coverage", "report")


@nox.session(name="tests-package")
@nox.parametrize("package", PACKAGES, ids=PACKAGES)
def tests_package(session: nox.Session, package: str) -> None:
    """Run one package's tests in an environment with only what the package declares."""
    sync(session, "--package", f"rase-{package}", *SYNC_EXTRAS[package], "--group", "test")
    session.run("pytest", f"packages/{package}", *session.posargs)


@nox.session
@nox.parametrize("package", PACKAGES, ids=PACKAGES)
def lowest(session: nox.Session, package: str) -> None:
    """Run one package's tests with the oldest direct dependencies that it allows."""
    editables = [word for path in EDITABLES[package] for word in ("-e", path)]
    group = f"packages/{package}/pyproject.toml:test"
    session.install("--resolution", "lowest-direct", "--group", group, *editables)
    session.run("pytest", f"packages/{package}", *session.posargs)


IMPORT_ALL = """
import importlib, pkgutil, sys
name, *left_out = sys.argv[1:]
package = importlib.import_module(name)
for module in pkgutil.walk_packages(package.__path__, name + "."):
    if not module.name.startswith(tuple(left_out)):
        importlib.import_module(module.name)
"""

GPUS = ("rase_models.backends.cuda", "rase_models.backends.metal", "rase_models.testing_metal")

INSTALLED: dict[str, list[tuple[str, ...]]] = {
    "rase-core": [("python", "-c", IMPORT_ALL, "rase_core")],
    "rase-models": [("python", "-c", IMPORT_ALL, "rase_models", "rase_models.backends.cpu", *GPUS)],
    "rase-models[cpu]": [
        ("python", "-c", IMPORT_ALL, "rase_models", *GPUS),
        ("python", "-c", "import rase_models; assert rase_models.Engine().probe('cpu').device"),
    ],
    "rase-api": [("python", "-c", IMPORT_ALL, "rase_api")],
    "rase-cli": [
        ("python", "-c", IMPORT_ALL, "rase_cli", "rase_cli.__main__", "rase_cli.commands.serve"),
        ("rase", "--version"),
        ("rase", "runtime", "probe", "--device", "cpu"),
    ],
    "rase-cli[serve]": [
        ("python", "-c", IMPORT_ALL, "rase_cli", "rase_cli.__main__"),
        ("rase", "serve", "--help"),
    ],
}
"""What is installed alone, and what must run then."""


@nox.session
def build(session: nox.Session) -> None:
    """Build the four wheels; install each alone with its needs, import every module, run the command."""
    dist = Path(session.create_tmp()).resolve() / "dist"
    session.run_install("uv", "build", "--all-packages", "--quiet", "--out-dir", str(dist), external=True)
    programs = "Scripts" if sys.platform == "win32" else "bin"
    for number, (requirement, commands) in enumerate(INSTALLED.items()):
        venv = dist.parent / f"installed-{number}"
        session.run_install("uv", "venv", "--clear", "--quiet", str(venv), external=True)
        install = ("uv", "pip", "install", "--quiet", "--python", str(venv), "--find-links", str(dist))
        session.run_install(*install, requirement, external=True)
        for program, *arguments in commands:
            session.run(str(venv / programs / program), *arguments, external=True, silent=True)
