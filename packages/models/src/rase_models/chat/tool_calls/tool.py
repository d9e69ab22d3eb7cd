"""A function that a model may call."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from rase_core.arguments import TEXT, Kinds, check_arguments, instance
from rase_core.errors import InvalidParameter

_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_KINDS: Kinds = {
    "name": TEXT,
    "description": TEXT,
    "parameters": instance("a JSON schema, as a mapping", Mapping),
}


@dataclass(frozen=True, slots=True)
class Tool:
    """A function by name, with what it is for and the JSON schema of its arguments, an object.

    Raises InvalidParameter for a value of another type, for a name with other characters than letters,
    digits, `_`, `-`, `.` and `:`, and for a schema of anything but an object.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_arguments(_KINDS, name=self.name, description=self.description, parameters=self.parameters)
        if not _NAME.fullmatch(self.name):
            raise InvalidParameter("tools", self.name, "1 to 128 letters, digits, '_', '-', '.' or ':'")
        kind = self.parameters.get("type", "object")
        if kind not in ("object", ["object"]):
            raise InvalidParameter("tools", str(kind), f"parameters of {self.name} whose type is object")

    @property
    def schema(self) -> dict[str, object]:
        """The schema of the arguments; without parameters that of an empty object."""
        parameters: dict[str, object] = {"type": "object", "properties": {}} | dict(self.parameters)
        return parameters if self.parameters else parameters | {"additionalProperties": False}

    @property
    def schema_apart(self) -> dict[str, object]:
        """The schema as a document of its own, for a place within another one."""
        return {"$id": "urn:arguments", **self.schema}

    def as_template_value(self) -> dict[str, object]:
        """Return the tool as templates know it."""
        function = {"name": self.name, "description": self.description, "parameters": self.schema}
        return {"type": "function", "function": function}


Tools = Mapping[str, Tool]
