"""What every section of a file has in common."""

from pydantic import BaseModel, ConfigDict


class Entry(BaseModel):
    """It never changes, takes no unknown key and coerces nothing. Its errors do not hold what was written."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)
