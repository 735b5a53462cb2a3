"""Check the allowed includes between rooms, and the only room of each outside library.

    includes.py ROOT
"""

import fnmatch
import re
import sys

import tree

# Room (the longest matching directory, or a single module without ".c") counts: the directories or
# headers it may include from, beside its own. "!" excludes an entry. Rooms that are not listed
# (tests, bench, tools) may include anything of the tree.
PURE_BASE = [
    "base/",
    "!base/clock.h",
    "!base/conf.h",
    "!base/file.h",
    "!base/json.h",
    "!base/log.h",
    "!base/record.h",
]
# The rooms of libtrain in the order of their floors: a room may include from those before it. The
# first ones describe models and files, and the coordinator uses them too; the others compute.
DESCRIBING = [
    "images",
    "formats",
    "schedule",
    "quant",
    "model",
    "kernels",
    "description",
    "memory",
    "state",
]
COMPUTING = ["backend", "ops", "optim", "data", "stage"]
COORDINATOR_BASE = ["base/", "net/", "schema/"] + [f"libtrain/{room}/" for room in DESCRIBING]
# The strategies of the agent: the directory of each, and how the modules of its protocol in
# agent/core begin.
STRATEGIES = {
    "pipeline": ["pipeline", "progress"],
    "parameter_server": ["exchange"],
    "gossip": ["mixing"],
}


def no_strategy(*but):
    """Exclude what belongs to one strategy, except to these."""
    others = [name for name in STRATEGIES if name not in but]
    protocols = [start for name in others for start in STRATEGIES[name]]
    return [f"!agent/{name}/" for name in others] + [f"!agent/core/{start}" for start in protocols]


# What concerns every strategy knows none of them.
NO_STRATEGY = no_strategy()
AGENT_BASE = ["base/", "net/", "schema/", "libtrain/", "agent/core/", "agent/runtime/"]
ROOMS = {
    "base": [],
    "net": ["base/"],
    "schema": [
        "base/",
        "!base/clock.h",
        "!base/conf.h",
        "!base/file.h",
        "!base/log.h",
        "libtrain/model/",
        "libtrain/kernels/",
        "libtrain/quant/codec.h",
    ],
    "schema/tables": ["base/", "schema/", "libtrain/model/kernel_names.h"],
    "libtrain": ["base/", "!base/clock.h", "!base/conf.h", "!base/log.h"],
    "coordinator/plan": PURE_BASE
    + ["libtrain/schedule/", "libtrain/model/reduce.h", "libtrain/model/segments.h"],
    "coordinator/core": PURE_BASE
    + ["schema/", "!schema/wire.h", "coordinator/plan/", "libtrain/schedule/"]
    + ["libtrain/model/", "libtrain/kernels/", "libtrain/memory/", "libtrain/quant/codec.h"],
    "coordinator": COORDINATOR_BASE,
    "agent/core": PURE_BASE
    + ["schema/", "!schema/wire.h", "libtrain/schedule/", "libtrain/model/"],
    "agent/runtime": ["base/", "net/", "schema/", "libtrain/", "agent/core/"] + NO_STRATEGY,
    "agent/peer": AGENT_BASE + NO_STRATEGY,
    "agent/offline": AGENT_BASE + ["agent/pipeline/"],
    "agent/copies": ["base/", "net/", "schema/", "agent/core/", "agent/runtime/", "agent/peer/"]
    + NO_STRATEGY,
    "agent": ["base/", "net/", "schema/", "libtrain/"] + NO_STRATEGY,
    "agent/work_table": ["base/", "schema/", "agent/"],
    "cli": ["base/", "net/", "schema/"],
}
# A stage of the pipeline owns the mixes of its group.
for name in STRATEGIES:
    known = [name, "gossip"] if name == "pipeline" else [name]
    ROOMS[f"agent/{name}"] = (
        AGENT_BASE
        + ["agent/peer/"]
        + [f"agent/{other}/" for other in known]
        + no_strategy(*known)
    )
# The pure modules of agent/copies from the lowest to the highest.
COPIES_CORE = ["outbox_queue", "snapshot_list", "outbox_tasks"]
for floor, module in enumerate(COPIES_CORE):
    ROOMS[f"agent/copies/{module}"] = (
        PURE_BASE
        + ["schema/", "!schema/wire.h", "agent/core/"]
        + [f"agent/copies/{lower}.h" for lower in COPIES_CORE[:floor]]
    )
# The edges of the coordinator from the lowest to the highest: a room may include from those before
# it. The program (coordinator/*.c) is above all of them.
COORDINATOR_EDGES = [
    "store/",
    "access/",
    "turn/",
    "config.h",
    "coordinator.h",
    "content/",
    "http/",
]
for floor, room in enumerate(COORDINATOR_EDGES):
    ROOMS["coordinator/" + re.sub(r"/$|\.h$", "", room)] = (
        ["base/", "net/"]
        if room == "store/"
        else COORDINATOR_BASE
        + ["coordinator/core/"]
        + [f"coordinator/{lower}" for lower in COORDINATOR_EDGES[:floor]]
    )
LIBTRAIN_BASE = {
    "images": PURE_BASE,
    "schedule": PURE_BASE,
    "formats": ["base/", "!base/clock.h", "!base/conf.h", "!base/log.h"],
}
LIBTRAIN_USUAL_BASE = ["base/", "!base/clock.h", "!base/conf.h", "!base/file.h", "!base/log.h"]
for floor, room in enumerate(DESCRIBING + COMPUTING):
    ROOMS[f"libtrain/{room}"] = (
        LIBTRAIN_BASE.get(room, LIBTRAIN_USUAL_BASE)
        + (["libtrain/train.h"] if room in COMPUTING else [])
        + [f"libtrain/{lower}/" for lower in (DESCRIBING + COMPUTING)[:floor]]
    )

# Single files that may see one more header, and why.
EXCEPTIONS = {
    (
        "libtrain/stage/probe.c",
        "base/clock.h",
    ),  # measures the device's speed; no number of a model depends on it
    (
        "libtrain/quant/group.c",
        "libtrain/backend/simd.h",
    ),  # macros of the compiler alone: no symbol of the backend
    (
        "libtrain/quant/coder.c",
        "libtrain/backend/simd.h",
    ),
}

# Outside headers and the files that may include them.
OUTSIDE = {
    "jansson.h": ["base/json.h"],
    "microhttpd.h": ["net/*"],
    "gnutls/*": ["net/*", "tests/unit/net/*"],
    "curl/*": ["net/*"],
    "openssl/*": ["net/*"],
    "sqlite3.h": ["coordinator/store/*", "tests/unit/coordinator_store/*", "tests/e2e/powercut/*"],
    "cblas.h": ["libtrain/backend/*", "bench/*"],
    "dnnl*": ["libtrain/backend/onednn.c", "libtrain/backend/onednn_pass.c"],
    "zlib.h": ["libtrain/formats/*", "tests/unit/libtrain_formats/*"],
    "jpeglib.h": ["libtrain/images/*"],
    "jerror.h": ["libtrain/images/*"],
    "png.h": ["libtrain/images/*"],
    "zstd.h": ["libtrain/quant/squeeze_zstd.c"],
    "cmocka.h": ["tests/support/*"],
    "assert.h": [],  # ours is base/assert.h: the build types define NDEBUG
}
# Not for pure rooms: clocks, files, sockets, threads, signals.
PURE_ROOMS = [
    "coordinator/core",
    "coordinator/plan",
    "agent/core",
] + [f"agent/copies/{module}" for module in COPIES_CORE]
IMPURE_SYSTEM = [
    "time.h",
    "sys/*",
    "unistd.h",
    "fcntl.h",
    "pthread.h",
    "threads.h",
    "stdatomic.h",
    "signal.h",
    "poll.h",
    "netinet/*",
    "arpa/*",
    "netdb.h",
    "dirent.h",
    "errno.h",
    "locale.h",
]

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)


def room_of(path):
    rooms = [room for room in ROOMS if path.startswith((room + "/", room + "."))]
    return max(rooms, key=len) if rooms else None


def allowed(room, header):
    """Whether a file of the room may include this header of the tree. Headers of the room and of
    rooms inside it are always allowed.
    """
    answer = header.startswith((room + "/", room + "."))
    for rule in ROOMS[room]:
        if rule.startswith("!"):
            answer = answer and not header.startswith(rule[1:])
        else:
            answer = answer or header.startswith(rule)
    return answer


def matches(name, patterns):
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def is_unlisted(path, header):
    """Whether the agent's table takes a strategy from a directory that STRATEGIES does not name:
    nothing would keep it apart.
    """
    rooms = [f"agent/{name}/" for name in [*STRATEGIES, "core", "peer", "runtime"]]
    inside = header.startswith("agent/") and header.count("/") > 1
    return path == "agent/work_table.c" and inside and not header.startswith(tuple(rooms))


def check(root):
    problems = []
    count = 0
    for path in tree.files(root, ".c", ".h"):
        room = room_of(path)
        text = tree.read(root, path)
        for match in INCLUDE.finditer(text):
            count += 1
            kind, header = match.groups()
            place = f"{path}:{text.count(chr(10), 0, match.start()) + 1}"
            for pattern, owners in OUTSIDE.items():
                if fnmatch.fnmatch(header, pattern) and not matches(path, owners):
                    problems.append(
                        f"{place}: <{header}> is only for {', '.join(owners) or 'nobody'}"
                    )
            if is_unlisted(path, header):
                problems.append(f"{place}: STRATEGIES lacks the directory of {header}")
            if kind == "<" and room in PURE_ROOMS and matches(header, IMPURE_SYSTEM):
                problems.append(f"{place}: <{header}> in the pure room {room}")
            if (
                kind == '"'
                and room
                and not allowed(room, header)
                and (path, header) not in EXCEPTIONS
            ):
                problems.append(f'{place}: "{header}" is not for {room}')
    return count, problems


if __name__ == "__main__":
    tree.verdict("includes", *check(sys.argv[1]))
