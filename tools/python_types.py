#!/usr/bin/python3
"""Python types of the API's messages, from its contract.

    tools/python_types.py CONTRACT OUTPUT.py
    tools/python_types.py --check CONTRACT OUTPUT.py    exit status 1: the output is stale

CONTRACT is schema/openapi.yaml, or what a coordinator serves at /openapi.json. Each schema becomes
a TypedDict, or an alias of the type that it is. Members that may be left out are NotRequired. Needs
Debian's python3-yaml; the output needs Python 3.11 and nothing else.
"""

import keyword
import re
import sys
import textwrap

import yaml

WIDTH = 100
HEAD = '''"""The messages of Paceline's API.

Made from schema/openapi.yaml by tools/python_types.py: do not edit.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict
'''
PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def class_name(name):
    """job_spec: JobSpec"""
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[^A-Za-z0-9]+", name))


def is_class(schema):
    """Whether a schema is an object of known members. One that takes others too is a dict."""
    return bool(schema.get("properties")) and schema.get("additionalProperties") is not True


class Types:
    """Collects the text of each type. An object inside of another is a class of its own."""

    def __init__(self, contract):
        self.schemas = contract["components"]["schemas"]
        self.texts = {}

    def resolve(self, reference):
        """The name of the type that a reference names."""
        prefix = "#/components/schemas/"
        name = reference.removeprefix(prefix)
        if not reference.startswith(prefix) or name not in self.schemas:
            sys.exit(f"python_types.py: no schema {reference}")
        return class_name(name)

    def expression(self, schema, name):
        """The type of a schema; `name` is that of a class which it may need."""
        if "$ref" in schema:
            return self.resolve(schema["$ref"])
        for union in ("oneOf", "anyOf"):
            if union in schema:
                parts = [
                    self.expression(part, f"{name}{index}")
                    for index, part in enumerate(schema[union])
                ]
                return " | ".join(dict.fromkeys(parts))
        kinds = schema.get("type", [])
        kinds = kinds if isinstance(kinds, list) else [kinds]
        parts = [self.plain(schema, kind, name) for kind in kinds]
        return " | ".join(dict.fromkeys(parts)) or "Any"

    def plain(self, schema, kind, name):
        """The type of a schema whose JSON type is `kind`."""
        if kind == "array":
            return f"list[{self.expression(schema.get('items', {}), name + 'Item')}]"
        if kind == "object" and is_class(schema):
            self.add_class(schema, name)
            return name
        if kind == "object":
            members = schema.get("additionalProperties")
            value = self.expression(members, name + "Value") if isinstance(members, dict) else "Any"
            return f"dict[str, {value}]"
        values = [value for value in schema.get("enum", []) if value is not None]
        if kind == "null" or not values:
            return PLAIN[kind]
        return f"Literal[{', '.join(literal(value) for value in values)}]"

    def add_class(self, schema, name):
        """A TypedDict."""
        if name in self.texts:
            sys.exit(f"python_types.py: two types have the name {name}")
        self.texts[name] = ""  # it takes its place before the classes of its members
        required = schema.get("required", [])
        members = []
        for member, value in schema["properties"].items():
            text = self.expression(value, name + class_name(member))
            members.append((member, text if member in required else f"NotRequired[{text}]"))
        if all(member.isidentifier() and not keyword.iskeyword(member) for member, _ in members):
            self.texts[name] = class_text(schema, name, members)
        else:
            self.texts[name] = dict_text(name, members)

    def add(self, schema_name):
        """The type of a schema of the contract."""
        schema, name = self.schemas[schema_name], class_name(schema_name)
        if schema.get("type") == "object" and is_class(schema):
            self.add_class(schema, name)
        else:
            self.texts[name] = wrapped(f'{name}: TypeAlias = "', self.expression(schema, name), '"')


def literal(value):
    """A value as Python writes it, with double quotes."""
    return f'"{value}"' if isinstance(value, str) else repr(value)


def wrapped(before, text, after):
    """A type after `before`, broken inside of its brackets if the line is too long."""
    if len(before + text + after) <= WIDTH:
        return before + text + after
    quoted = after.startswith('"')  # of an alias: a string cannot be broken
    if quoted and '"' not in text:
        return f"{before}{text}{after}  # noqa: E501"
    if quoted:
        before, after = before[:-1], after[1:]
    indent = " " * (len(before) - len(before.lstrip()) + 4)
    start = text.index("Literal[") + len("Literal[")
    end = text.index("]", start)
    values = textwrap.fill(
        text[start:end] + ",", WIDTH, initial_indent=indent, subsequent_indent=indent
    )
    return f"{before}{text[:start]}\n{values}\n{indent[4:]}{text[end:]}{after}"


def class_text(schema, name, members):
    """A TypedDict whose members all are names of Python."""
    lines = [f"class {name}(TypedDict):"]
    if schema.get("description"):
        said = " ".join(schema["description"].split()).replace("\\", "\\\\").replace('"', "'")
        lines += textwrap.wrap(
            f'"""{said}"""', WIDTH - 4, initial_indent="    ", subsequent_indent="    "
        ) + [""]
    return "\n".join(lines + [wrapped(f"    {member}: ", text, "") for member, text in members])


def dict_text(name, members):
    """A TypedDict with a member such as "from"."""
    lines = [f"{name} = TypedDict(", f'    "{name}",', "    {"]
    for member, text in members:
        single = text.replace('"', "'")
        lines.append(f'        "{member}": "{single}",')
        if len(lines[-1]) > WIDTH:
            lines[-1] += "  # noqa: E501"
    return "\n".join(lines + ["    },", ")"])


def python_types(contract):
    """The text of the module."""
    types = Types(contract)
    for name in types.schemas:
        types.add(name)
    return HEAD + "".join(f"\n\n{text}\n" for text in types.texts.values())


def read(path):
    """The text of a file."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        sys.exit(f"python_types.py: {error}")


def main():
    words = [word for word in sys.argv[1:] if word != "--check"]
    if len(words) != 2:
        sys.exit("usage: python_types.py [--check] CONTRACT OUTPUT.py")
    contract, output = words
    text = python_types(yaml.safe_load(read(contract)))
    if "--check" in sys.argv:
        if read(output) != text:
            sys.exit(f"{output} is stale; run tools/python_types.py {contract} {output}")
        return
    with open(output, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
