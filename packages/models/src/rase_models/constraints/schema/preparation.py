"""From a schema to one of the same meaning in the keywords that llguidance enforces."""

from functools import partial
from typing import Any

from rase_core.errors import UnenforceableFormat
from rase_core.json_text import json_words

from rase_models.constraints.schema.budget import Budget, Exhausted
from rase_models.constraints.schema.document import Place, SchemaDocument
from rase_models.constraints.schema.drafts import modernised
from rase_models.constraints.schema.ecma_pattern import NoPattern, translated
from rase_models.constraints.schema.exact_numbers import ExactNumbers
from rase_models.constraints.schema.intersections import check_patterns
from rase_models.constraints.schema.keywords import COUNTS, ENFORCED, LIMITS, MANY, NAMED, ONE, Schema
from rase_models.constraints.schema.negation import NARROW, Inexpressible, Narrowed
from rase_models.constraints.schema.number_spelling import is_told
from rase_models.constraints.schema.rewriting import REASONS, REWRITES
from rase_models.constraints.schema.unevaluated import close_unevaluated


def prepared(
    document: SchemaDocument,
    schema: object,
    place: Place,
    *,
    is_lenient: bool = False,
    budget: Budget | None = None,
) -> dict[str, Any] | bool:
    """Return a schema of a document that stands by itself.

    What cannot be said in the keywords that are enforced raises UnenforceableFormat with the keyword and its
    place, or is left out where that `is_lenient`; what makes no sense is refused always, and what takes more
    than the budget of its request, or one of its own.
    """
    preparation = Preparation(document, Budget() if budget is None else budget, is_lenient=is_lenient)
    try:
        body = preparation.whole(schema, place)
    except RecursionError:
        raise UnenforceableFormat("json_schema", "it is nested too deeply") from None
    except Inexpressible as error:
        raise UnenforceableFormat("json_schema", str(error)) from None
    if isinstance(body, bool) or not preparation.definitions:
        return body
    return {**body, "$defs": preparation.definitions}


class Preparation:
    """The preparation of the parts of one document; `definitions` are what references refer to."""

    def __init__(self, document: SchemaDocument, budget: Budget, *, is_lenient: bool) -> None:
        self.document, self.is_lenient = document, is_lenient
        self.spend = budget.spend
        self._budget = budget
        self.definitions: dict[str, Any] = {}
        self._names: dict[str, str] = {}
        self._places: dict[int, tuple[object, Place]] = {}
        self._has_narrow = self._has_limits = False

    def prepare(self, schema: object, place: Place) -> Schema:
        """Return the schema at a place in other words."""
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise UnenforceableFormat(
                "json_schema",
                f"expected an object or a boolean at {place.pointer}, found {json_words(schema)}"[:300],
            )
        self.spend()
        place = place.within(schema)
        given = modernised(schema)
        place.check(given)
        self._check_values(given, place)
        close = partial(close_unevaluated, place=place)
        for key in ("unevaluatedProperties", "unevaluatedItems"):
            self._try(given, key, place, close)
        self._has_narrow |= NARROW in given
        self._has_limits |= not given.keys().isdisjoint(LIMITS)
        made = self._with_children(given, place)
        self._places[id(made)] = made, place
        return self._rewritten(made, place)

    def whole(self, schema: object, place: Place) -> Schema:
        """Return the schema at a place as `prepare` does, with numbers that are exact, also in definitions.

        Raises Inexpressible where they cannot be, unless this is lenient.
        """
        body, numbers = self.prepare(schema, place), ExactNumbers(self)
        check_patterns([body, *self.definitions.values()], self._referred, self._place_of)
        if not self._has_limits:
            return body
        try:
            exact = numbers.of(body)
            self.definitions = {name: numbers.of(part) for name, part in self.definitions.items()}
        except Inexpressible:
            if not self.is_lenient:
                raise
            return body
        return exact

    def resolve(self, reference: str) -> Schema:
        """Return what a reference in a prepared schema refers to; raises Inexpressible within itself."""
        found = self.definitions.get(reference.removeprefix("#/$defs/"))
        if found is None:
            raise Inexpressible
        schema: Schema = found
        return schema

    def _referred(self, reference: str) -> Schema:
        found: Schema = self.definitions.get(reference.removeprefix("#/$defs/"), True)
        return found

    def _place_of(self, schema: object) -> Place | None:
        """Return where a prepared schema stands; None for other words of ours."""
        found = self._places.get(id(schema))
        return None if found is None else found[1]

    def _translate_patterns(self, made: dict[str, Any], place: Place) -> None:
        """Write patterns as llguidance reads them; refuse those that it takes too long to make ready."""
        if "pattern" in made:
            made["pattern"] = self._translated(made["pattern"], "pattern", place)
        named: dict[str, Any] = {}
        for pattern, schema in made.get("patternProperties", {}).items():
            text = self._translated(pattern, "patternProperties", place)
            named[text] = {"allOf": [named[text], schema]} if text in named else schema
        if named:
            made["patternProperties"] = named

    def _translated(self, pattern: str, key: str, place: Place) -> str:
        why = self._budget.read(pattern)
        try:
            text = translated(pattern) if why is None else ""
        except NoPattern as error:
            raise place.refuse(key, f"no regex: {error}") from None
        why = why or self._budget.write(text)
        if why is not None:
            raise place.refuse(key, why)
        return text

    def _check_values(self, given: dict[str, Any], place: Place) -> None:
        """Refuse values with numbers that would become others."""
        for key in ("enum", "const"):
            if key in given and not is_told(given[key]):
                if not self.is_lenient:
                    raise place.refuse(key, "it has numbers of too many digits to be told exactly")
                del given[key]

    def _with_children(self, given: dict[str, Any], place: Place) -> dict[str, Any]:
        """Return a schema with its parts prepared."""
        made = {key: value for key, value in given.items() if key in ENFORCED or key in REWRITES}
        for key in made.keys() & set(ONE):
            made[key] = self.prepare(made[key], place.at(key))
        for key in made.keys() & set(MANY):
            made[key] = [self.prepare(item, place.at(key, i)) for i, item in enumerate(made[key])]
        for key in made.keys() & set(NAMED):
            made[key] = {name: self.prepare(item, place.at(key, name)) for name, item in made[key].items()}
        for key in made.keys() & set(COUNTS):
            made[key] = int(made[key])
        self._translate_patterns(made, place)
        if "$dynamicRef" in given:
            self._add_dynamic(made, given["$dynamicRef"], place)
        if "$ref" in given:
            made["$ref"] = self._reference(given["$ref"], place)
        return made

    def _add_dynamic(self, made: dict[str, Any], reference: str, place: Place) -> None:
        """Take a reference for a plain one where nothing can lead it elsewhere."""
        if self.document.is_one:
            made["allOf"] = [*made.get("allOf", ()), {"$ref": self._reference(reference, place)}]
        elif not self.is_lenient:
            raise place.refuse("$dynamicRef", REASONS["$dynamicRef"])

    def _reference(self, reference: str, place: Place) -> str:
        target, found = self.document.resolve(reference, place)
        key = f"{found.base} {found.pointer}"
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = str(len(self._names))
            self.definitions[name] = self.prepare(target, found)
        return f"#/$defs/{name}"

    def _rewritten(self, made: dict[str, Any], place: Place) -> Schema:
        """Say in other words what can be said; where nothing helps, llguidance has its say."""
        for key, rewrite in REWRITES.items():
            self._try(made, key, place, rewrite)
        return made

    def _try(self, schema: dict[str, Any], key: str, place: Place, rewrite: Any) -> None:
        if key not in schema:
            return
        try:
            rewrite(schema, key, self)
        except Inexpressible as reason:
            if key in ENFORCED and not (self._has_narrow or isinstance(reason, Narrowed | Exhausted)):
                return
            if not self.is_lenient:
                why = str(reason) or REASONS.get(key, "it cannot be enforced here")
                raise place.refuse(key, why) from None
            schema.pop(key, None)
