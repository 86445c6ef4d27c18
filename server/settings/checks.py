"""Checks of a single setting's value; each states what is accepted."""

from __future__ import annotations

import base64
import binascii
import json
import warnings
from collections.abc import Mapping, Sequence
from ipaddress import ip_address, ip_network
from itertools import chain
from typing import Annotated, Any
from urllib.parse import urlsplit

from duetime.scheduler.access.secret import is_name, names_secrets, read_key, references
from duetime.scheduler.delivery.quiet_hours import NO_HOURS, QuietHours
from duetime.scheduler.errors import InvalidArgument, InvalidArguments
from duetime.scheduler.outbound.headers import header_problems
from duetime.scheduler.remedies import PLAIN_WORDS
from duetime.scheduler.rules.redact import redacted_json
from duetime.scheduler.rules.time import zones
from pydantic import AfterValidator, BeforeValidator, SecretStr, StringConstraints

MIN_SECRET_BYTES = 24
"""The shortest signing key that Standard Webhooks allows."""


_MAX_EXAMPLE_CHARS = 1_000
_MAX_MISTAKES = 3  # of a pool, each of which hides the next: no table, its name, its parts

LOOPBACK_ORIGINS = "loopback"
"""Stands for the origins of all pages that this machine serves itself."""


def comma_separated(value: Any) -> Any:
    """Split `"a, b"` into `("a", "b")`, without empty parts or repeats; lists stay as they are."""
    if not isinstance(value, str):
        return value
    return tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))


def lower_case(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def upper_case(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


def system_zone() -> str | None:
    """Return the machine's IANA zone, or None when it cannot be told: a wall time is then an error that says so."""
    from tzlocal import get_localzone_name  # noqa: PLC0415 - reads /etc; not wanted where a zone is configured

    with warnings.catch_warnings(action="ignore"):
        try:
            return zones.find(get_localzone_name() or "").key
        except (InvalidArgument, LookupError, OSError):
            return None


def _zone(name: str) -> str:
    try:
        return zones.find(name).key
    except InvalidArgument as error:
        raise ValueError(f"{error.problem}. Accepted: {error.accepted}") from None


def _quiet_hours(text: str) -> str:
    try:
        QuietHours.read(text, "UTC")
    except InvalidArgument as error:
        raise ValueError(f"{error.problem}. Accepted: {error.accepted}. Example: {error.example}") from None
    return text


def _own_quiet_hours(text: str) -> str:
    return text if text.strip().lower() == NO_HOURS else _quiet_hours(text)


OwnQuietWords = Annotated[str, AfterValidator(_own_quiet_hours)]
QuietWords = Annotated[str, AfterValidator(_quiet_hours)]


def _database_url(url: str) -> str:
    scheme, separator, _ = url.partition("://")
    if scheme == "postgres":
        raise ValueError("write postgresql:// instead of postgres://")
    if not separator or scheme.partition("+")[0] not in {"sqlite", "postgresql"}:
        raise ValueError("it must be an SQLAlchemy URL that begins with sqlite:/// or postgresql+psycopg://")
    return url


def _redis_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"redis", "rediss", "unix"} or not (parts.hostname or parts.scheme == "unix"):
        raise ValueError("it must be a URL that begins with redis://, rediss:// (TLS) or unix:///")
    return url


def _web_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"https", "http"} or not parts.hostname:
        raise ValueError("it must be a whole https:// address")
    return url


def is_loopback(host: str) -> bool:
    """Whether an address, or the name `localhost`, is this machine alone."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _host(host: str) -> str:
    try:
        return host if host == "localhost" else str(ip_address(host))
    except ValueError:
        raise ValueError("it must be localhost or an IP address of this machine, as 127.0.0.1 or 0.0.0.0") from None


def _network(text: str) -> str:
    try:
        return str(ip_network(text)) if "/" in text else str(ip_address(text))
    except ValueError:
        raise ValueError("it must be an IP address or a network, as 10.0.0.7 or 10.0.0.0/8") from None


def _public_url(url: str) -> str:
    parts = urlsplit(url)
    is_origin = url.removesuffix("/") == f"{parts.scheme}://{parts.netloc}" and not set(url) & set("*@")
    if not (is_origin and parts.hostname and _is_safe(url)):
        raise ValueError("it must be an https:// address without a path (http:// only on loopback)")
    return url.removesuffix("/")


def _issuer_url(url: str) -> str:
    parts = urlsplit(url)
    if not parts.hostname or parts.fragment or parts.query or not _is_safe(url):
        raise ValueError("it must be a whole https:// address without a query (http:// only on loopback)")
    return url


def _is_safe(url: str) -> bool:
    """Whether nobody on the way can read or change what is sent to an address."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))


def _origin(text: str) -> str:
    parts = urlsplit(text)
    is_origin = text == f"{parts.scheme}://{parts.netloc}" and not set(text) & set("*@")
    if text != LOOPBACK_ORIGINS and not (is_origin and parts.scheme in {"https", "http"} and parts.hostname):
        raise ValueError("it must be `loopback`, or the origin of a page without a path, as https://chat.example.com")
    return text


def _signing_secrets(secrets: SecretStr) -> SecretStr:
    parts = secrets.get_secret_value().split()
    if not parts or not all(map(_is_signing_secret, parts)):
        raise ValueError(
            f"it must be whsec_ and {MIN_SECRET_BYTES} or more bytes in base64 (`openssl rand -base64 32` makes them); "
            "while you rotate secrets, the new one, a blank, and the old one"
        )
    return secrets


def _is_signing_secret(text: str) -> bool:
    if names_secrets(text):
        return all(map(is_name, references(text)))
    text = text.removeprefix("whsec_")
    try:
        return len(base64.b64decode(text + "=" * (-len(text) % 4), validate=True)) >= MIN_SECRET_BYTES
    except (binascii.Error, ValueError):
        return False


def _headers(headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
    for name, value in headers.items():
        problem = next(header_problems("headers", name, value.get_secret_value()), None)
        if problem is not None:
            raise ValueError(str(problem))
    return headers


def _secret_keys(keys: SecretStr) -> SecretStr:
    for key in keys.get_secret_value().replace(",", " ").split():
        read_key(key)
    return keys


class WrongPools(ValueError):
    """Declarations of pools that are wrong, each with its problems, and `corrected`, as they were meant.

    The example has the `others` too, since a variable holds all of them; not where they are long or hold a credential.
    """

    def __init__(
        self, problems: Sequence[InvalidArgument], corrected: Mapping[str, Any], others: Mapping[str, Any]
    ) -> None:
        self.sentences = [
            InvalidArgument(each.argument, each.problem, accepted=each.accepted).text_in(PLAIN_WORDS)
            for each in problems
        ]
        self.corrected = corrected
        example = json.dumps({**corrected, **others})
        if len(example) > _MAX_EXAMPLE_CHARS or redacted_json(others) != others:
            example = json.dumps(corrected)
        super().__init__("\n".join([*self.sentences[:-1], f"{self.sentences[-1]} Example: {example}"]))


def _pools(declared: Any) -> Any:
    if not isinstance(declared, Mapping) or not all(isinstance(name, str) for name in declared):
        return declared
    wrong = {name: found for name, spec in declared.items() if (found := _pool_problems(name, spec))}
    if wrong:
        corrected = dict[str, Any]()
        for name in wrong:
            corrected |= _corrected(name, declared[name])
        others = {name: spec for name, spec in declared.items() if name not in wrong}
        raise WrongPools(list(chain.from_iterable(wrong.values())), corrected, others)
    return declared


def _pool_problems(name: str, spec: Any) -> Sequence[InvalidArgument]:
    from duetime.scheduler.rules.limits.pool_spec import read_pool  # noqa: PLC0415 - a first answer does not wait for it

    if not isinstance(spec, Mapping):
        units = spec if isinstance(spec, int) and not isinstance(spec, bool) and spec >= 0 else 1
        accepted, example = "a table of its parts", json.dumps({"capacity": units})
        return (InvalidArgument(f"pools.{name}", f"it is {repr(spec)[:40]}", accepted=accepted, example=example),)
    try:
        read_pool(name, spec)
    except InvalidArguments as wrong:
        return wrong.problems
    except InvalidArgument as wrong:
        return (wrong,)
    return ()


def _corrected(name: str, spec: Any) -> dict[str, Any]:
    """Return a pool with the examples of its refusals: another declaration, and another name."""
    for _ in range(_MAX_MISTAKES):
        wrong = _pool_problems(name, spec)
        if not wrong:
            break
        example = wrong[0].example
        name, spec = (name, json.loads(example)) if example.startswith("{") else (example, spec)
    return {name: spec}


Names = Annotated[tuple[str, ...], BeforeValidator(comma_separated)]
PoolSettings = Annotated[dict[str, dict[str, Any]], BeforeValidator(_pools)]
ZoneName = Annotated[str, AfterValidator(_zone)]
Currency = Annotated[str, StringConstraints(to_upper=True, pattern=r"^[A-Za-z]{3}$")]
HolidayCalendar = Annotated[str, StringConstraints(to_upper=True, pattern=r"^([A-Za-z]{2}(-[A-Za-z0-9]{1,6})?)?$")]
DatabaseUrl = Annotated[str, AfterValidator(_database_url)]
RedisUrl = Annotated[str, AfterValidator(_redis_url)]
Namespace = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$")]
WebUrl = Annotated[str, AfterValidator(_web_url)]
HostName = Annotated[str, AfterValidator(_host)]
NetworkText = Annotated[str, AfterValidator(_network)]
PublicUrl = Annotated[str, AfterValidator(_public_url)]
IssuerUrl = Annotated[str, AfterValidator(_issuer_url)]
Origin = Annotated[str, AfterValidator(_origin)]
Headers = Annotated[dict[str, SecretStr], AfterValidator(_headers)]
SecretKeys = Annotated[SecretStr, AfterValidator(_secret_keys)]
SigningSecret = Annotated[SecretStr, AfterValidator(_signing_secrets)]
ChannelName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,39}$")]
