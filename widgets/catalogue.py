"""The catalogue of the cards: every text that they show, in each language, from `src/languages/`.

A text has `{placeholders}`, and one plural for each category of its language where it counts something. A key that
starts with `model.` is English everywhere: programs and models read it, or it stands in a sentence of the server.
Translators leave it out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

ENGLISH = "en"

CardText = str | dict[str, str]
"""A text, or its plurals by the names of `Intl.PluralRules`."""

Catalogue = Mapping[str, Mapping[str, CardText]]


def read(folder: Path) -> Catalogue:
    """Return the texts by language and key, English first."""
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}
    return {ENGLISH: found.pop(ENGLISH), **found}


def module(folder: Path) -> str:
    """Return the catalogue as a module of the cards, with one string for a language, which packs best."""
    words = read(folder)
    groups = _groups(words[ENGLISH])
    keys = [f"{group}.{name}" for group, names in groups.items() for name in names]
    languages = ", ".join(f"{language}: {_texts(language, said, keys)}" for language, said in words.items())
    return _MODULE % (_template(";".join(" ".join((group, *names)) for group, names in groups.items())), languages)


_MODULE = """const KEYS = %s.split(";").flatMap((found) => {
const [group, ...names] = found.split(" ");
return names.map((name) => `${group}.${name}`);
});
const TEXTS = { %s };
const formsOf = (said, forms) => Object.fromEntries(said.split("|").map((form, place) => [forms[place], form]));
const saidOf = (said, forms) => (said.includes("|") ? formsOf(said, forms.split(" ")) : said);
const byKey = ([forms, ...said]) => Object.fromEntries(KEYS.map((key, place) => [key, saidOf(said[place], forms)]));
const byLanguage = ([language, said]) => [language, byKey(said.split("\\t"))];
export const CATALOGUE = Object.fromEntries(Object.entries(TEXTS).map(byLanguage));
"""


def _groups(english: Mapping[str, CardText]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for key in english:
        group, name = key.split(".", 1)
        groups.setdefault(group, []).append(name)
    return groups


def _texts(language: str, card_texts: Mapping[str, CardText], keys: list[str]) -> str:
    """Return the names of the plurals and a text for each key, with a tab after each; no text is an empty one."""
    forms = PLURALS[language]
    texts = [card_texts.get(key, "") for key in keys]
    written = [text if isinstance(text, str) else "|".join(text[form] for form in forms) for text in texts]
    return _template("".join(f"{text}\t" for text in (" ".join(forms), *written)))


def _template(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("`", "\\`").replace("${", "\\${")
    return f"`{escaped}`"


PLURALS = {
    "ar": ("few", "many", "one", "other", "two", "zero"),
    "de": ("one", "other"),
    "en": ("one", "other"),
    "es": ("one", "other"),
    "fr": ("one", "other"),
    "ja": ("other",),
}
"""The plurals of each language that counts below a million have; French and Spanish have another one from there on."""

_FOR_MODELS = "model."
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_EXACT = frozenset({"zero", "one", "two"})
"""Plurals of one number, which may say it as a word."""


def differences(catalogue: Catalogue, language: str) -> list[str]:
    """Say what a language has not, has beyond English, or has with other placeholders or plurals."""
    english = {key: text for key, text in catalogue[ENGLISH].items() if not key.startswith(_FOR_MODELS)}
    texts = {key: text for key, text in catalogue[language].items() if not key.startswith(_FOR_MODELS)}
    missing = [f"{key}: missing" for key in english if key not in texts]
    extra = [f"{key}: not in English" for key in texts if key not in english]
    shared = [key for key in english if key in texts]
    other = [said for key in shared for said in _deviations(key, english[key], texts[key], PLURALS[language])]
    return sorted(missing + extra + other)


def _deviations(key: str, english: CardText, text: CardText, plurals: tuple[str, ...]) -> list[str]:
    if isinstance(english, str) is not isinstance(text, str):
        return [f"{key}: plurals in one language only"]
    forms = {"": text} if isinstance(text, str) else text
    wanted = _placeholders(english if isinstance(english, str) else english["other"])
    wrong = (
        []
        if isinstance(text, str) or tuple(sorted(text)) == plurals
        else [f"{key}: plurals {', '.join(sorted(text))}, not {', '.join(plurals)}"]
    )
    return wrong + [
        f"{key}: placeholders {sorted(found)} in {name or 'the text'}, not {sorted(wanted)}"
        for name, form in forms.items()
        if (found := _placeholders(form)) != wanted and not (name in _EXACT and found < wanted)
    ]


def _placeholders(text: str) -> set[str]:
    return set(_PLACEHOLDER.findall(text))
