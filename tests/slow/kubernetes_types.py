#!/usr/bin/python3
"""kubernetes_types.py DIRECTORY: the manifests of deploy/kubernetes fit the published types of the
Kubernetes API, and the schema beside them finds no less than these types do.

The compiler of TypeScript compares each manifest, as a literal, with the type of its kind
(kubernetes-types, made from the API's own OpenAPI document): members that the API lacks, missing
members and wrong types are errors. npm installs both below DIRECTORY from the committed lock file.
Exit status 77 (skipped) if that is not possible.
"""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "borders")]

import manifests
import npm

PACKAGE = ROOT / "tests" / "slow" / "kubernetes"
COMPILE_SECONDS = 300
GROUPS = {"v1": "core/v1", "apps/v1": "apps/v1"}
# What the types cannot say: ranges, patterns, lists of words.
ONLY_BY_SCHEMA = {
    # Optional in the API, since other programs may fill it in.
    ("StatefulSet", ("spec", "template", "spec", "containers", 0, "image")),
    ("StatefulSet", ("spec", "template", "spec", "containers", 0, "ports", 0, "containerPort")),
    ("DaemonSet", ("spec", "template", "spec", "volumes", 0, "hostPath", "type")),
    ("Service", ("spec", "ports", 0, "protocol")),
    # `metadata` has only optional members, and no API version is wrong by itself.
    ("Service", ("metadata", "namespace")),
}


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def write(path, kind, group, document):
    path.write_text(
        f'import type {{ {kind} }} from "kubernetes-types/{group}";\n'
        f"const document: {kind} = {json.dumps(document, indent=1)};\nvoid document;\n",
        encoding="utf-8",
    )


def compile_all(target):
    """The names of the files that the compiler rejects, with its first words on each."""
    done = subprocess.run(
        ["node", target / "node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--pretty"]
        + ["false", "--module", "esnext", "--moduleResolution", "bundler"]
        + sorted(target.glob("*.ts")),
        cwd=target,
        timeout=COMPILE_SECONDS,
        capture_output=True,
        text=True,
        check=False,
    )
    rejected = {}
    for line in done.stdout.splitlines():
        name, found, words = line.partition(".ts(")
        if found:
            rejected.setdefault(name, words)
    if done.returncode and not rejected:
        sys.exit(f"tsc: {done.returncode}: {done.stdout[-1000:]} {done.stderr[-1000:]}")
    return rejected


def main():
    try:
        import yaml
    except ImportError:
        skip("no YAML (apt-get install python3-yaml)")
    try:
        target = npm.install(PACKAGE, pathlib.Path(sys.argv[1]) / "kubernetes")
    except npm.NotInstalled as reason:
        skip(reason)
    for path in target.glob("*.ts"):
        path.unlink()
    kinds, right, wrong = {}, set(), set()
    for path, document in manifests.documents(ROOT, yaml):
        kind = document["kind"]
        kinds[kind] = document
        right.add(f"{path.stem}-{kind}")
        write(target / f"{path.stem}-{kind}.ts", kind, GROUPS[document["apiVersion"]], document)
    for index, (kind, place, value) in enumerate(manifests.MISTAKES):
        if (kind, place) in ONLY_BY_SCHEMA:
            continue
        document = kinds[kind]
        wrong.add(f"mistake-{index}")
        write(
            target / f"mistake-{index}.ts",
            kind,
            GROUPS[document["apiVersion"]],
            manifests.with_mistake(document, place, value),
        )
    rejected = compile_all(target)
    for name in sorted(right & set(rejected)):
        print(f"{name}: {rejected[name]}")
    for name in sorted(wrong - set(rejected)):
        print(f"{name} ({manifests.MISTAKES[int(name.partition('-')[2])]}) is accepted")
    if set(rejected) != wrong:
        sys.exit(1)
    print(f"{len(right)} manifests fit the API, {len(wrong)} mistakes do not")


if __name__ == "__main__":
    main()
