"""The other names of the models in a store."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rase_core.errors import InvalidAlias
from rase_core.manifest_file import read_aliases
from rase_core.model_id import check_alias


@dataclass(frozen=True, slots=True)
class Aliases:
    """Which models have which alias: the ids by alias, more than one only after a change by hand."""

    owners: Mapping[str, tuple[str, ...]]

    @classmethod
    def read(cls, manifests: Iterable[Path]) -> "Aliases":
        """Read the aliases in manifest files; one that is gone or cannot be read has none."""
        owners: dict[str, tuple[str, ...]] = {}
        for path in manifests:
            for alias in dict.fromkeys(_aliases_in(path)):
                owners[alias] = (*owners.get(alias, ()), path.stem)
        return cls(owners)

    def of(self, model_id: str) -> tuple[str, ...]:
        """Return a model's aliases."""
        return tuple(alias for alias, owners in self.owners.items() if model_id in owners)

    def owner(self, alias: str) -> str | None:
        """Return the model that an alias stands for. Raises InvalidAlias when it is several."""
        owners = self.owners.get(alias, ())
        if len(owners) > 1:
            reason = f"is one of {', '.join(owners)}"
            raise InvalidAlias(alias, reason, "leave it in one of their manifests")
        return owners[0] if owners else None

    def check_free(self, alias: str, model_id: str, ids: Iterable[str]) -> None:
        """Check that a name is no id, and no other model's alias, whatever its case. Raises InvalidAlias."""
        check_alias(alias)
        if reason := self._taken(model_id, ids).get(alias.lower()):
            raise InvalidAlias(alias, reason, "choose another name, or take that one away first")

    def clashes(self, ids: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield the models that have an alias they may not have, by id, and why they may not."""
        having = [(owner, alias) for alias, owners in self.owners.items() for owner in owners]
        taken: defaultdict[str, dict[str, str]] = defaultdict(dict)  # models and reasons by name
        for name in ids:
            taken[name.lower()][name] = f"is the id of {name!r}"
        for owner, alias in having:
            taken[alias.lower()].setdefault(owner, f"is an alias of {owner!r}")
        for owner, alias in sorted(having):
            reasons = (reason for other, reason in taken[alias.lower()].items() if other != owner)
            if reason := next(reasons, None):
                yield owner, f"alias {alias!r} {reason}"

    def _taken(self, model_id: str, ids: Iterable[str]) -> dict[str, str]:
        """Return what the names, in lower case, are that a model may not have as aliases."""
        taken = {name.lower(): f"is the id of {name!r}" for name in ids}
        for name, owners in self.owners.items():
            if others := [owner for owner in owners if owner != model_id]:
                taken.setdefault(name.lower(), f"is an alias of {others[0]!r}")
        return taken

    def holder(self, name: str) -> str | None:
        """Return a model that has a name as an alias, whatever its case."""
        found = (owners[0] for alias, owners in self.owners.items() if alias.lower() == name.lower())
        return next(found, None)


def _aliases_in(path: Path) -> tuple[str, ...]:
    try:
        return read_aliases(path)
    except FileNotFoundError:  # removed since it was listed
        return ()
