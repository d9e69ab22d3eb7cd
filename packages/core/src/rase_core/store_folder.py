"""Where models are registered when nobody names a place."""

import os
import sys
from pathlib import Path

from rase_core.errors import StoreError


def default_store() -> Path:
    """Return the store to use when none is named: `RASE_STORE`, else `rase` in the user's data folder."""
    named = os.environ.get("RASE_STORE")
    if not named:
        return _data_folder() / "rase"
    return Path(os.path.abspath(os.path.expanduser(named)))  # noqa: PTH100, PTH111 - a `~user` may be nobody's


def _data_folder() -> Path:
    try:
        return _user_folder(Path.home())
    except RuntimeError as error:
        raise StoreError(
            f"the folder of the model store is not known: {error}", "name one with --store or RASE_STORE"
        ) from error


def _user_folder(home: Path) -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    if sys.platform == "darwin":
        return home / "Library" / "Application Support"
    named = os.environ.get("XDG_DATA_HOME", "")
    return Path(named) if Path(named).is_absolute() else home / ".local" / "share"
