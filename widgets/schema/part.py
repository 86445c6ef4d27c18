"""A part of the structured content: frozen, and what is absent is left out, never null.

A reader has to ignore fields that it does not know. Parts that come later are added under the same schema, and the
number rises only when a field changes its meaning.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class PayloadPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, defer_build=True)
