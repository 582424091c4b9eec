"""Documents as models of pydantic, which take longer to import than all else of a command."""

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from builder.errors import BuildError, sentence

Form = TypeVar("Form", bound=BaseModel)


class Strict(BaseModel):
    """A mapping that people write: keys have dashes, and others than those of the model none."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=lambda name: name.replace("_", "-")
    )


def checked(model: type[Form], document: Any, where: object) -> Form:
    """Return a document as a model; an error names `where` it lies."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise BuildError(f"{where}: {sentence(error)}") from None
