"""The words that a client prefers: those of the command line, which calls the REST API of another machine."""

from __future__ import annotations

from typing import Final

from duetime.scheduler.remedies import ErrorWords
from duetime.server.words.command_words import COMMAND_WORDS
from duetime.server.words.rest_words import REST_WORDS
from starlette.datastructures import Headers

PREFER_HEADER: Final = "Prefer"
COMMAND_PREFERENCE: Final = "words=command"


def words_for(headers: Headers) -> ErrorWords:
    """Return the words of the command line where a request prefers them (RFC 7240), else those of the REST API."""
    given = ",".join(headers.getlist(PREFER_HEADER)).split(",")
    preferred = ("".join(each.partition(";")[0].replace('"', "").split()).lower() for each in given)
    return COMMAND_WORDS if COMMAND_PREFERENCE in preferred else REST_WORDS
