"""What every recorded value is built on."""

from pydantic import BaseModel, ConfigDict


class Value(BaseModel):
    """A frozen value that knows every field it has."""

    model_config = ConfigDict(frozen=True, extra="forbid")
