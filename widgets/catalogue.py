"""The catalogue of the cards: every text that they show, in each language, from `src/languages/`.

A text has `{placeholders}`, and one plural for each category of its language where it counts something. A key that
starts with `model.` is English everywhere: programs and models read it, or it stands in a sentence of the server.
Translators leave it out.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

ENGLISH = "en"
_PACKED_IN_THIS_ORDER = (ENGLISH, "es", "fr", "de")
"""Languages next to those with words like theirs take fewer bytes."""

CardText = str | dict[str, str]
"""A text, or its plurals by the names of `Intl.PluralRules`."""

Catalogue = Mapping[str, Mapping[str, CardText]]


def read(folder: Path) -> Catalogue:
    """Return the texts by language and key, English first."""
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}
    first = {language: found.pop(language) for language in _PACKED_IN_THIS_ORDER if language in found}
    return {**first, **found}


def module(folder: Path) -> str:
    """Return the catalogue as a module of the cards, with one string for a language, which packs best."""
    words = read(folder)
    return _written(words, list(words[ENGLISH]), [])


def with_short_keys(parts: Mapping[str, str], name: str, folder: Path, without: Collection[str] = ()) -> dict[str, str]:
    """Return the modules of a card with numbers for keys; `name` is that of the catalogue among them.

    It has no texts for the keys `without`. A key keeps its name where a source joins it from its group and a name, or
    makes it the name of a member.
    """
    if name not in parts:
        return dict(parts)
    every, source = read(folder), "".join(text for part, text in parts.items() if part != name)
    words = {language: {key: said[key] for key in said if key not in without} for language, said in every.items()}
    unsaid = unsaid_in_english(source, words[ENGLISH])
    words[ENGLISH] = {key: "" if key in unsaid else said for key, said in words[ENGLISH].items()}
    groups = {found[1] or found[2] for found in _JOINED_KEY.finditer(source)}
    members = set(_MEMBER_KEY.findall(source))
    named = [key for key in words[ENGLISH] if key.split(".")[0] in groups or key in members]
    numbered = [key for key in words[ENGLISH] if key not in named]
    short = {f'"{key}"': f"{number}" for number, key in enumerate(numbered, start=len(named))}
    texts = {part: _QUOTED_KEY.sub(lambda found: short.get(found[0], found[0]), text) for part, text in parts.items()}
    return texts | {name: _written(words, named, numbered)}


def unsaid_in_english(source: str, keys: Iterable[str]) -> set[str]:
    """Return the keys for which a card in English shows the sentence of the server: it needs no text of its own."""
    detailed = {f"note.{kind}" for kinds in _DETAILED.findall(source) for kind in re.findall(r"\w+", kinds)}
    return {key for key in keys if key in detailed or key.startswith("refusal.")}


def _written(words: Catalogue, named: Sequence[str], numbered: Sequence[str]) -> str:
    """Return the module: `named` keys come first and have their names there, the others have their numbers."""
    groups = _groups(named)
    keys = [*(f"{group}.{name}" for group, names in groups.items() for name in names), *numbered]
    counted = Counter(found[1] for said in words.values() for text in said.values() for found in _placed(text))
    codes = {found: code for (found, _), code in zip(counted.most_common(len(_CODES)), _CODES, strict=False)}
    names = {code: found for found, code in codes.items()}
    values = " ".join(names.get(chr(code), "") for code in range(ord(_CODES[-1]) + 1))
    languages = ", ".join(f"{language}: {_texts(language, said, keys, codes)}" for language, said in words.items())
    return _MODULE % (
        _template(";".join(" ".join((group, *found)) for group, found in groups.items())),
        values,
        languages,
    )


_JOINED_KEY = re.compile(r"`([a-z_]+)\.\$\{|\bnamed\(\"([a-z_]+)\"")
_MEMBER_KEY = re.compile(r'"([a-z_]+\.[a-z_-]+)":')
_DETAILED = re.compile(r"\bDETAILED = new Set\(\[([^\]]*)\]\)")
_QUOTED_KEY = re.compile(r'"[a-z_]+\.[a-z_-]+"')
_CODES = "".join(chr(code) for code in range(0x01, 0x1C) if not chr(code).isspace())
"""One character each for the most frequent placeholders: no text has it, and it ends no line."""

_MODULE = """const KEYS = %s.split(";").flatMap((found) => {
const [group, ...names] = found.split(" ");
return names.map((name) => `${group}.${name}`);
});
const VALUES = "%s".split(" ");
const TEXTS = { %s };
const formsOf = (said, forms) => Object.fromEntries(said.split("|").map((form, place) => [forms[place], form]));
const saidOf = (said, forms) => (said.includes("|") ? formsOf(said, forms.split(" ")) : said);
const keyed = (forms) => (text, place) => [KEYS[place] ?? place, saidOf(text, forms)];
const byKey = ([forms, ...said]) => Object.fromEntries(said.map(keyed(forms)));
const written = (said) => said.replace(/[\\x01-\\x08\\x0e-\\x1b]/g, (code) => `{${VALUES[code.charCodeAt()]}}`);
const byLanguage = ([language, said]) => [language, byKey(written(said).split("\\t"))];
export const CATALOGUE = Object.fromEntries(Object.entries(TEXTS).map(byLanguage));
"""


def _groups(keys: Sequence[str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for key in keys:
        group, name = key.split(".", 1)
        groups.setdefault(group, []).append(name)
    return groups


def _texts(language: str, card_texts: Mapping[str, CardText], keys: Sequence[str], codes: Mapping[str, str]) -> str:
    """Return the names of the plurals and a text for each key, with a tab after each; no text is an empty one.

    Placeholders that have a code are written by it.
    """
    forms = PLURALS[language]
    texts = [card_texts.get(key, "") for key in keys]
    written = [text if isinstance(text, str) else "|".join(text[form] for form in forms) for text in texts]
    coded = [_PLACEHOLDER.sub(lambda found: codes.get(found[1], found[0]), text) for text in written]
    return _template("".join(f"{text}\t" for text in (" ".join(forms), *coded)))


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


def _placed(text: CardText) -> Iterator[re.Match[str]]:
    """Yield each placeholder of a text, in all of its plurals."""
    for form in [text] if isinstance(text, str) else text.values():
        yield from _PLACEHOLDER.finditer(form)


def _placeholders(text: str) -> set[str]:
    return set(_PLACEHOLDER.findall(text))
