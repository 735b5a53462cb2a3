"""Checks a JSON value against a schema of openapi.yaml.

It supports exactly the keywords of the contract (JSON Schema 2020-12) and fails on any other, so
that no new keyword stays unchecked.
"""

import datetime
import re

ANNOTATIONS = {"description", "default", "example", "title"}
TYPES = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


class Mismatch(AssertionError):
    """The value violates the schema; the text says where."""


class Shapes:
    def __init__(self, document):
        self.document = document

    def resolve(self, node):
        while "$ref" in node:
            target = self.document
            for part in node["$ref"].removeprefix("#/").split("/"):
                target = target[part.replace("~1", "/").replace("~0", "~")]
            node = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
        return node

    def least(self, schema):
        """The plainest value: of an object its required members, of an enum its first value."""
        schema = self.resolve(schema)
        if "const" in schema or "enum" in schema:
            return schema["const"] if "const" in schema else schema["enum"][0]
        kinds = schema.get("type", "object")
        kind = kinds[0] if isinstance(kinds, list) else kinds
        if kind == "object":
            members = schema.get("properties", {})
            return {name: self.least(members[name]) for name in schema.get("required", ())}
        least = max(0, schema.get("minimum", 0))
        return {"string": "", "boolean": False, "array": []}.get(kind, least)

    def check(self, schema, value, place=""):
        schema = self.resolve(schema)
        for word, argument in schema.items():
            if word in ANNOTATIONS:
                continue
            rule = RULES.get(word)
            if rule is None:
                raise Mismatch(
                    f"{place or '/'}: the schema says '{word}', which this check does not support"
                )
            rule(self, argument, value, place, schema)


def fail(place, text):
    raise Mismatch(f"{place or '/'}: {text}")


def rule_type(_shapes, argument, value, place, _schema):
    names = argument if isinstance(argument, list) else [argument]
    if not any(TYPES[name](value) for name in names):
        fail(place, f"{value!r} is not {' or '.join(names)}")


def rule_const(_shapes, argument, value, place, _schema):
    if value != argument or isinstance(value, bool) != isinstance(argument, bool):
        fail(place, f"{value!r} is not {argument!r}")


def rule_enum(_shapes, argument, value, place, _schema):
    if value not in argument:
        fail(place, f"{value!r} is not one of {argument}")


def rule_one_of(shapes, argument, value, place, _schema):
    faults = []
    for schema in argument:
        try:
            shapes.check(schema, value, place)
        except Mismatch as mismatch:
            faults.append(str(mismatch))
    if len(argument) - len(faults) != 1:
        fail(place, f"fits {len(argument) - len(faults)} of {len(argument)} alternatives: {faults}")


def rule_properties(shapes, argument, value, place, _schema):
    for name, schema in argument.items():
        if isinstance(value, dict) and name in value:
            shapes.check(schema, value[name], f"{place}/{name}")


def rule_additional(shapes, argument, value, place, schema):
    if not isinstance(value, dict):
        return
    for name in value.keys() - schema.get("properties", {}).keys():
        if argument is False:
            fail(place, f"unknown member '{name}'")
        shapes.check(argument, value[name], f"{place}/{name}")


def rule_required(_shapes, argument, value, place, _schema):
    missing = [name for name in argument if isinstance(value, dict) and name not in value]
    if missing:
        fail(place, f"members are missing: {missing}")


def rule_property_names(shapes, argument, value, place, _schema):
    for name in value if isinstance(value, dict) else ():
        shapes.check(argument, name, f"{place}/{name}")


def rule_items(shapes, argument, value, place, _schema):
    for index, item in enumerate(value if isinstance(value, list) else ()):
        shapes.check(argument, item, f"{place}/{index}")


def rule_pattern(_shapes, argument, value, place, _schema):
    if isinstance(value, str) and not re.search(argument, value):
        fail(place, f"{value!r} does not match {argument}")


def rule_format(_shapes, argument, value, place, _schema):
    if argument == "date-time":
        if isinstance(value, str):
            if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", value):
                fail(place, f"{value!r} is not a UTC time of RFC 3339")
            datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))
    elif argument != "binary":
        fail(place, f"the schema says format '{argument}', which this check does not support")


def rule_size(least, kinds):
    def rule(_shapes, argument, value, place, _schema):
        if isinstance(value, kinds) and (len(value) < argument if least else len(value) > argument):
            fail(place, f"{len(value)} is {'less' if least else 'more'} than {argument}")

    return rule


def rule_bound(least):
    def rule(_shapes, argument, value, place, _schema):
        if TYPES["number"](value) and (value < argument if least else value > argument):
            fail(place, f"{value} is {'below' if least else 'above'} {argument}")

    return rule


RULES = {
    "type": rule_type,
    "const": rule_const,
    "enum": rule_enum,
    "oneOf": rule_one_of,
    "properties": rule_properties,
    "additionalProperties": rule_additional,
    "required": rule_required,
    "propertyNames": rule_property_names,
    "items": rule_items,
    "pattern": rule_pattern,
    "format": rule_format,
    "minLength": rule_size(True, str),
    "maxLength": rule_size(False, str),
    "minItems": rule_size(True, list),
    "maxItems": rule_size(False, list),
    "maxProperties": rule_size(False, dict),
    "minimum": rule_bound(True),
    "maximum": rule_bound(False),
}
