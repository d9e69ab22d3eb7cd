"""JSON schemas said in the keywords that can be enforced, and what is wrong with those that cannot."""

from rase_models.constraints.schema.budget import Budget
from rase_models.constraints.schema.document import Place, SchemaDocument
from rase_models.constraints.schema.fault import fault_of
from rase_models.constraints.schema.kept import prepared_once
from rase_models.constraints.schema.preparation import prepared

__all__ = ["Budget", "Place", "SchemaDocument", "fault_of", "prepared", "prepared_once"]
