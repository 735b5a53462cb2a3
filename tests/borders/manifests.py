"""The manifests of deploy/kubernetes fit the schema beside them, and their parts fit each other and
the image file.

    manifests.py ROOT
"""

import copy
import pathlib
import re
import sys

import tree

DIRECTORY = "deploy/kubernetes"
SCHEMA = "schema.yaml"
# Mistakes that the schema must find: a kind, the path of the member, and what stands there.
MISTAKES = [
    ("StatefulSet", ("spec", "serviceNames"), "x"),
    ("StatefulSet", ("spec", "replicas"), "1"),
    ("StatefulSet", ("spec", "template", "spec", "containers", 0, "image"), None),
    ("StatefulSet", ("spec", "template", "spec", "containers", 0, "ports", 0, "containerPort"), 0),
    ("StatefulSet", ("spec", "template", "spec", "terminationGracePeriod"), 5),
    ("DaemonSet", ("spec", "replicas"), 1),
    ("DaemonSet", ("apiVersion",), "v1"),
    ("DaemonSet", ("spec", "template", "spec", "volumes", 0, "hostPath", "type"), "Folder"),
    ("DaemonSet", ("spec", "template", "spec", "containers", 0, "env", 0, "value"), 7411),
    ("Service", ("spec", "ports", 0, "protocol"), "HTTP"),
    ("Service", ("metadata", "namespace"), None),
]


def documents(root, yaml):
    for path in sorted((root / DIRECTORY).glob("*.yaml")):
        if path.name != SCHEMA:
            for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
                yield path.relative_to(root), document


def with_mistake(document, path, value):
    """A copy of the document with another value at the path; None: without the member."""
    wrong = copy.deepcopy(document)
    place = wrong
    for word in path[:-1]:
        place = place[word]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return wrong


def pod_problems(name, spec):
    """What the schema cannot see: volumes that are not there, ports without a name."""
    template = spec["template"]
    pod = template["spec"]
    if spec["selector"]["matchLabels"].items() - template["metadata"]["labels"].items():
        yield f"{name}: its selector does not match its pods"
    volumes = {volume["name"] for volume in pod.get("volumes", [])}
    volumes |= {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", [])}
    for container in pod["containers"] + pod.get("initContainers", []):
        ports = {port["name"] for port in container.get("ports", [])}
        for mount in container.get("volumeMounts", []):
            if mount["name"] not in volumes:
                yield f"{name}: no volume {mount['name']}"
        for kind in ("startup", "liveness", "readiness"):
            probe = container.get(f"{kind}Probe")
            if probe and probe["httpGet"]["port"] not in ports:
                yield f"{name}: a probe asks port {probe['httpGet']['port']}, not one of {ports}"
        context = container["securityContext"]
        if context["allowPrivilegeEscalation"] or context["capabilities"]["drop"] != ["ALL"]:
            yield f"{name}: {container['name']} has more rights than it needs"


def image_problems(root, name, pod):
    """Images and their users are those of the Containerfile, in the version of the tree."""
    built = (root / "deploy/container/Containerfile").read_text(encoding="utf-8")
    version = re.search(
        r"project\(paceline VERSION (\S+)", (root / "CMakeLists.txt").read_text(encoding="utf-8")
    ).group(1)
    stages = set(re.findall(r"^FROM \S+ AS (\S+)", built, re.MULTILINE))
    users = dict(re.findall(r"useradd --system --uid (\d+) .* (paceline-\w+)", built))
    for container in pod["containers"]:
        image, _, tag = container["image"].partition(":")
        user = pod.get("securityContext", {}).get("runAsUser")
        user = container["securityContext"].get("runAsUser", user)
        if image.removeprefix("paceline-") not in stages or tag != version:
            yield f"{name}: no image {container['image']} of {version} is built"
        if users.get(str(user)) != image:
            yield f"{name}: user {user} is not that of {image}: {users}"


def check(root, yaml, jsonschema):
    schema = yaml.safe_load((root / DIRECTORY / SCHEMA).read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    problems, kinds = [], {}
    for path, document in documents(root, yaml):
        name = f"{path}: {document.get('kind')}"
        kinds[document.get("kind")] = document
        error = jsonschema.exceptions.best_match(validator.iter_errors(document))
        if error:
            problems.append(f"{name}: {error.json_path}: {error.message[:200]}")
        elif "template" in document.get("spec", {}):
            problems += pod_problems(name, document["spec"])
            problems += image_problems(root, name, document["spec"]["template"]["spec"])
    for kind, place, value in MISTAKES:
        if validator.is_valid(with_mistake(kinds[kind], place, value)):
            problems.append(f"{SCHEMA} accepts a {kind} with {place} = {value!r}")
    services = kinds["Service"]
    claimed = kinds["StatefulSet"]["spec"]["serviceName"]
    if claimed != services["metadata"]["name"]:
        problems.append(f"{DIRECTORY}: no service {claimed}")
    return len(kinds) + len(MISTAKES), problems


if __name__ == "__main__":
    try:
        import jsonschema as of_debian
        import yaml as parser
    except ImportError as missing:
        tree.skip(f"python3-{missing.name} is not installed")
    tree.verdict("manifests", *check(pathlib.Path(sys.argv[1]), parser, of_debian))
