"""Check openapi.yaml and turn it into compact JSON: check_openapi.py INPUT.yaml OUTPUT.json

Every "$ref" must have a target, so that a broken contract stops the build.
"""

import json
import sys

import yaml


class StrictLoader(yaml.SafeLoader):
    """Rejects duplicate keys of a mapping; YAML would silently keep the last."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = {key for key in keys if keys.count(key) > 1}
        if twice:
            raise yaml.YAMLError(
                f"line {node.start_mark.line + 1}: {', '.join(map(str, twice))} stands twice"
            )
        return super().construct_mapping(node, deep)


def check_references(root, value, place):
    if isinstance(value, dict):
        target = value.get("$ref")
        if isinstance(target, str):
            found = root
            for part in target.removeprefix("#/").split("/"):
                found = (
                    found.get(part.replace("~1", "/").replace("~0", "~"))
                    if isinstance(found, dict)
                    else None
                )
            if not target.startswith("#/") or found is None:
                sys.exit(f"openapi.yaml: {place}: {target} leads nowhere")
        for key, member in value.items():
            check_references(root, member, f"{place}/{key}")
    elif isinstance(value, list):
        for index, member in enumerate(value):
            check_references(root, member, f"{place}/{index}")


def main():
    source, output = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        contract = yaml.load(file, Loader=StrictLoader)
    check_references(contract, contract, "")
    with open(output, "w", encoding="ascii") as file:
        json.dump(contract, file, ensure_ascii=True, separators=(",", ":"))


main()
