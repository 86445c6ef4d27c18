"""Ordinary pydantic models as payloads: what is stored is read as the same value by the run, and nothing is lost."""

from __future__ import annotations

import datetime as dt
import enum
from typing import Annotated, Any, Literal

import pytest
from duetime import testing
from duetime.scheduler.errors import InvalidArguments
from duetime.scheduler.handlers import Context, Handler, run_handler
from duetime.scheduler.outcomes import Done, Failed
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    Json,
    computed_field,
    field_serializer,
    field_validator,
    model_serializer,
)
from pydantic.alias_generators import to_camel

CTX = Context.for_test()
DAY = dt.date(2026, 12, 1)


class Computed(BaseModel):
    w: int
    h: int = 2

    @computed_field  # type: ignore[prop-decorator]  # as pydantic documents it
    @property
    def area(self) -> int:
        return self.w * self.h


class ValidationAlias(BaseModel):
    source: str = Field(validation_alias="from")


class SerializationAlias(BaseModel):
    source: str = Field(serialization_alias="src")


class Choices(BaseModel):
    source: str = Field(validation_alias=AliasChoices("from", "src"))


class PathAlias(BaseModel):
    x: int = Field(validation_alias=AliasPath("a", 0))


class Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)
    big_file: str


class ByName(BaseModel):
    model_config = ConfigDict(validate_by_name=True, validate_by_alias=False)
    x: int = Field(alias="X")


class AsText(BaseModel):
    data: Json[dict[str, int]]


class Excluded(BaseModel):
    a: int
    b: int = Field(default=1, exclude=True)


class Shown(BaseModel):
    when: dt.datetime

    @field_serializer("when")
    def show(self, value: dt.datetime) -> str:
        return value.strftime("%d.%m.%Y")


class Renamed(BaseModel):
    a: int

    @model_serializer
    def show(self) -> dict[str, int]:
        return {"A": self.a}


class Split(BaseModel):
    tags: list[str]

    @field_validator("tags", mode="before")
    @classmethod
    def split(cls, value: Any) -> Any:
        return value.split(",")


class Prefixed(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def prefix(cls, value: str) -> str:
        return f"x-{value}"


class Kind(enum.Enum):
    A = "a"


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    day: dt.date = DAY
    kind: Kind = Kind.A
    pair: tuple[int, int] = (1, 2)


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]


class Pets(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


def handler_of(model: type[BaseModel]) -> Handler:
    return Handler(name="odd", fn=lambda _ctx, payload: Done(repr(payload)), payload_model=model)


@pytest.mark.parametrize(
    ("model", "given", "said"),
    [
        (Computed, {"w": 3}, "Computed(w=3, h=2, area=6)"),
        (ValidationAlias, {"from": "a"}, "ValidationAlias(source='a')"),
        (SerializationAlias, {"source": "a"}, "SerializationAlias(source='a')"),
        (Choices, {"src": "a"}, "Choices(source='a')"),
        (PathAlias, {"a": [1]}, "PathAlias(x=1)"),
        (Camel, {"big_file": "a"}, "Camel(big_file='a')"),
        (ByName, {"x": 1}, "ByName(x=1)"),
        (AsText, {"data": '{"a": 1}'}, "AsText(data={'a': 1})"),
        (Excluded, {"a": 1, "b": 7}, "Excluded(a=1, b=7)"),
        (Shown, {"when": "2026-12-01T10:00:00"}, "Shown(when=datetime.datetime(2026, 12, 1, 10, 0))"),
        (Renamed, {"a": 3}, "Renamed(a=3)"),
        (Split, {"tags": "a,b"}, "Split(tags=['a', 'b'])"),
        (Prefixed, {"name": "y"}, "Prefixed(name='x-y')"),
        (Pets, {"pet": {"kind": "cat", "lives": 9}}, "Pets(pet=Cat(kind='cat', lives=9))"),
        (Strict, {"day": "2026-12-02", "kind": "a", "pair": [3, 4]}, None),
    ],
)
def test_the_run_reads_from_what_is_stored_the_value_that_was_checked(
    model: type[BaseModel], given: dict[str, Any], said: str | None
) -> None:
    odd = handler_of(model)
    stored = odd.check(given)
    ran = run_handler(odd, CTX, stored)
    assert isinstance(ran, Done), ran
    assert ran.summary == (said or "Strict(day=datetime.date(2026, 12, 2), kind=<Kind.A: 'a'>, pair=(3, 4))")
    assert odd.check(stored) == stored
    assert testing.run(odd, given) == ran


def test_a_payload_that_its_dump_would_change_is_stored_as_it_was_given_and_others_with_their_defaults() -> None:
    assert handler_of(Excluded).check({"a": 1, "b": 7}) == {"a": 1, "b": 7}
    assert handler_of(Computed).check({"w": 3}) == {"w": 3}
    assert handler_of(Strict).check({}) == {"day": "2026-12-01", "kind": "a", "pair": [1, 2]}


@pytest.mark.parametrize(
    "given", [{"day": "2026-12-02"}, {"day": dt.date(2026, 12, 2)}, Strict(day=dt.date(2026, 12, 2))]
)
def test_a_strict_model_reads_json_values_of_python_and_its_own_instances(given: Any) -> None:
    odd = handler_of(Strict)
    assert odd.check(given) == {"day": "2026-12-02", "kind": "a", "pair": [1, 2]}
    assert testing.run(odd, given) == run_handler(odd, CTX, {"day": "2026-12-02"})


def test_a_strict_model_refuses_json_of_another_type() -> None:
    with pytest.raises(InvalidArguments, match=r"payload\.pair\[0\]: should be a valid integer"):
        handler_of(Strict).check({"pair": ["3", 4]})


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (Computed(w=3), {"w": 3, "h": 2}),
        (Camel(big_file="a"), {"bigFile": "a"}),
        (SerializationAlias(source="a"), {"source": "a"}),
        (AsText.model_validate({"data": '{"a": 1}'}), {"data": '{"a":1}'}),
        (ByName.model_validate({"x": 1}), {"x": 1}),
    ],
)
def test_an_instance_is_stored_in_the_form_that_its_model_reads(value: BaseModel, stored: dict[str, Any]) -> None:
    assert handler_of(type(value)).check(value) == stored  # type: ignore[arg-type]  # the Python API takes it


def test_an_instance_that_loses_a_value_as_json_is_refused() -> None:
    with pytest.raises(InvalidArguments, match="not read from its own dump"):
        handler_of(Excluded).check(Excluded(a=1, b=7))  # type: ignore[arg-type]  # as above


@pytest.mark.parametrize(
    ("model", "name"), [(ValidationAlias, "from"), (Choices, "from"), (PathAlias, "x"), (Camel, "bigFile")]
)
def test_an_unknown_field_is_answered_with_the_names_that_the_model_reads(model: type[BaseModel], name: str) -> None:
    with pytest.raises(InvalidArguments) as refused:
        handler_of(model).check({f"{name}e": "a"})
    first = refused.value.problems[0]
    assert (first.argument, first.problem) == (f"payload.{name}e", "unknown field")
    assert (first.accepted or "").startswith(name)


class Free(BaseModel):
    model_config = ConfigDict(extra="allow")


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int = 1


class Plain(BaseModel):
    a: int = 1


class Careless(BaseModel):
    model_config = ConfigDict(extra="ignore")
    a: int = 1


class Mixed(BaseModel):
    free: Free = Free()
    closed: Closed = Closed()
    plain: list[Plain] = []
    careless: Careless = Careless()


class OpenMixed(Mixed):
    model_config = ConfigDict(extra="allow")


@pytest.mark.parametrize("outer", [Mixed, OpenMixed])
def test_each_model_within_a_payload_has_its_own_rule_for_unknown_fields(outer: type[Mixed]) -> None:
    odd = handler_of(outer)
    assert odd.check({"free": {"colour": "red"}})["free"] == {"colour": "red"}
    assert odd.check({"careless": {"b": 2}})["careless"] == {"a": 1}
    for given in ({"closed": {"typo": 5}}, {"plain": [{"typo": 5}]}):
        with pytest.raises(InvalidArguments, match="typo: unknown field"):
            odd.check(given)
        assert isinstance(testing.run(odd, given), Failed)


def test_a_model_without_a_rule_refuses_unknown_fields_and_one_that_ignores_them_drops_them() -> None:
    with pytest.raises(InvalidArguments, match="typo: unknown field"):
        handler_of(Plain).check({"typo": 5})
    assert handler_of(Careless).check({"typo": 5}) == {"a": 1}


def test_a_payload_that_its_model_leaves_as_it_is_is_validated_once() -> None:
    validated: list[str] = []

    class Noted(BaseModel):
        message: str

        @field_validator("message")
        @classmethod
        def note(cls, message: str) -> str:
            validated.append(message)
            return message

    noted = Handler(name="noted", fn=lambda _ctx, _payload: Done(), payload_model=Noted)
    assert (noted.check({"message": "Stretch"}), validated) == ({"message": "Stretch"}, ["Stretch"])
