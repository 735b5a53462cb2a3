"""Run each border check on a small tree with and without a violation.

    self_test.py [COMPILER]
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import banned
import calls
import events
import format as layout
import headers
import includes
import lengths
import lint
import links
import symbols
import tree
import unique
import width

COMPILER = sys.argv.pop() if len(sys.argv) > 1 else "gcc"


class Borders(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.root = self.directory.name
        self.addCleanup(self.directory.cleanup)

    def write(self, path, text):
        whole = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "w", encoding="utf-8") as out:
            out.write(text)

    def problems_of_include(self, path, line):
        self.write(path, line + "\n")
        return includes.check(self.root)[1]

    def test_allowed_includes_pass(self):
        for path, line in [
            ("base/a.c", '#include "base/b.h"'),
            ("base/json.h", "#include <jansson.h>"),
            ("coordinator/core/a.c", '#include "coordinator/plan/p.h"'),
            ("coordinator/core/a.h", '#include "libtrain/model/model.h"'),
            ("coordinator/http/a.c", '#include "coordinator/core/core.h"'),
            ("coordinator/turn/a.c", '#include "coordinator/store/state.h"'),
            ("coordinator/coordinator.h", '#include "coordinator/turn/turn.h"'),
            ("coordinator/content/a.c", '#include "coordinator/coordinator.h"'),
            ("coordinator/http/b.c", '#include "coordinator/content/spool.h"'),
            ("coordinator/effects.c", '#include "coordinator/http/edge.h"'),
            ("net/a.c", "#include <curl/curl.h>"),
            ("coordinator/plan/a.c", '#include "libtrain/schedule/schedule.h"'),
            ("coordinator/plan/a.h", '#include "libtrain/model/reduce.h"'),
            ("libtrain/ops/a.c", '#include "libtrain/model/model.h"'),
            ("libtrain/state/a.c", '#include "libtrain/description/description.h"'),
            ("libtrain/stage/a.c", '#include "libtrain/train.h"'),
            ("agent/loop.c", '#include "libtrain/train.h"'),
            ("agent/core/a.c", "#include <string.h>"),
            ("agent/offline/a.c", '#include "agent/pipeline/stage.h"'),
            ("agent/work_table.c", '#include "agent/pipeline/pipeline_work.h"'),
            ("agent/copies/outbox_queue.c", '#include "agent/copies/outbox_queue.h"'),
            ("agent/copies/snapshot_list.h", '#include "agent/copies/outbox_queue.h"'),
            ("tests/unit/x/a.c", '#include "coordinator/core/core.h"'),
        ]:
            self.assertEqual(self.problems_of_include(path, line), [], line)

    def test_forbidden_includes_are_found(self):
        for path, line in [
            ("base/a.c", '#include "net/b.h"'),
            ("base/conf.c", "#include <jansson.h>"),
            ("coordinator/a.c", '#include "agent/core/b.h"'),
            ("agent/a.c", '#include "coordinator/core/b.h"'),
            ("agent/core/a.c", '#include "agent/pipeline/stage.h"'),
            ("agent/runtime/a.c", '#include "agent/peer/server.h"'),
            ("agent/offline/b.c", '#include "agent/loop.h"'),
            ("agent/peer/a.c", '#include "agent/copies/snapshot.h"'),
            ("agent/peer/b.c", '#include "agent/core/pipeline_task.h"'),
            ("agent/runtime/b.c", '#include "agent/core/exchange.h"'),
            ("agent/generation.c", '#include "agent/pipeline/stage.h"'),
            ("agent/work_table.c", '#include "agent/ring/ring_work.h"'),
            ("agent/copies/outbox.c", '#include "agent/core/pipeline.h"'),
            ("agent/copies/outbox_queue.c", '#include "agent/copies/snapshot.h"'),
            ("agent/copies/outbox_queue.h", "#include <pthread.h>"),
            ("agent/copies/outbox_queue.h", '#include "agent/copies/snapshot_list.h"'),
            ("agent/copies/snapshot_list.c", '#include "base/log.h"'),
            ("coordinator/core/b.c", '#include "base/clock.h"'),
            ("coordinator/core/c.c", '#include "net/hash.h"'),
            ("coordinator/core/d.c", '#include "coordinator/store/state.h"'),
            ("coordinator/core/e.c", "# include <time.h>"),
            ("coordinator/plan/a.c", "#include <sys/socket.h>"),
            ("coordinator/plan/b.c", '#include "coordinator/core/core.h"'),
            ("coordinator/loop.c", '#include "libtrain/train.h"'),
            ("coordinator/store/a.c", '#include "coordinator/core/core.h"'),
            ("coordinator/turn/a.c", '#include "coordinator/coordinator.h"'),
            ("coordinator/turn/b.c", '#include "coordinator/http/answer.h"'),
            ("coordinator/turn/c.c", '#include "coordinator/content/export.h"'),
            ("coordinator/coordinator.h", '#include "coordinator/http/parked.h"'),
            ("coordinator/content/a.c", '#include "coordinator/http/answer.h"'),
            ("coordinator/content/b.c", '#include "coordinator/loop.h"'),
            ("coordinator/http/c.c", '#include "coordinator/restore.h"'),
            ("coordinator/plan/c.c", '#include "libtrain/model/model.h"'),
            ("coordinator/core/f.c", '#include "libtrain/description/description.h"'),
            ("libtrain/model/a.c", '#include "libtrain/ops/linear.h"'),
            ("libtrain/model/b.c", '#include "libtrain/kernels/kernel_choice.h"'),
            ("libtrain/kernels/a.c", '#include "libtrain/description/zoo.h"'),
            ("libtrain/memory/a.c", '#include "libtrain/state/state.h"'),
            ("libtrain/schedule/a.c", '#include "libtrain/model/model.h"'),
            ("libtrain/backend/a.c", '#include "libtrain/ops/linear.h"'),
            ("libtrain/ops/b.c", '#include "base/log.h"'),
            ("schema/a.c", '#include "coordinator/core/core.h"'),
            ("cli/a.c", '#include "libtrain/train.h"'),
            ("agent/b.c", "#include <sqlite3.h>"),
            ("libtrain/ops/c.c", "#include <cblas.h>"),
            ("coordinator/http/b.c", "#include <microhttpd.h>"),
            ("net/b.c", "#include <assert.h>"),
        ]:
            self.assertEqual(len(self.problems_of_include(path, line)), 1, line)
            os.unlink(os.path.join(self.root, path))

    def test_banned_calls_are_found_and_words_are_not(self):
        self.write(
            "base/good.c",
            "/* sleep(1) */ int a = x->system(1); // rand()\n"
            'const char *b = "strcpy(";\nmy_sleep(2);\n'
            "    int rc = 0;\nstruct fault {\n    int code;\n};\nsize_t c = sizeof(c);\n"
            "struct field d = {.since = 2};\n",
        )
        self.assertEqual(banned.check(self.root), (1, []))
        self.write("base/bad.c", "int f(void)\n{\n    return rand ();\n}\n/* TODO: all */\n")
        self.write("base/CMakeLists.txt", "add_compile_options(-ffast-math)\n")
        self.assertEqual(
            banned.check(self.root)[1],
            [
                "base/bad.c:3: rand is banned",
                "base/bad.c:5: TODO left behind",
                "base/CMakeLists.txt:1: -ffast-math is banned",
            ],
        )
        os.remove(os.path.join(self.root, "base/CMakeLists.txt"))
        self.write(
            "base/bad.c",
            "{\n    int code = f();\n    g(&code, sizeof code);\n    h(.since = NEWEST);\n}\n",
        )
        self.assertEqual(
            banned.check(self.root)[1],
            [
                "base/bad.c:2: a return code is called rc",
                "base/bad.c:3: write sizeof(x)",
                "base/bad.c:4: write the number of the version",
            ],
        )

    def test_events_without_an_explanation_are_found(self):
        self.write("docs/troubleshooting.md", "| `disk_full`, `disk_free` | cause | remedy |\n")
        self.write(
            "net/a.c",
            'log_warn(full ? "disk_full" : "disk_free", "min=%d action=%s", 1,\n    "wait");\n',
        )
        self.assertEqual(events.check(self.root), (2, []))
        self.write("net/b.c", 'log_info("start", "a=%d", 1);\nlog_error("lost", "a=%d", 1);\n')
        self.assertEqual(
            events.check(self.root),
            (3, ["net/b.c:2: docs/troubleshooting.md does not explain lost"]),
        )

    def test_links_that_lead_nowhere_are_found(self):
        self.write(
            "a.md",
            "# One\n\n## Two, `three`\n\n## One\n\n"
            "[b](d/b.md#x) [two](#two-three) [one](#one-1) `[no](no.md)`\n",
        )
        self.write(
            "d/b.md",
            "## X\n[a](../a.md) [out](https://x.example/y.md)\n```\n## Y\n[z](z.md)\n```\n",
        )
        self.assertEqual(links.check(self.root), (2, []))
        self.write("d/c.md", "[a](a.md)\n\n[y](b.md#y) [up\nagain](../a.md#one-2)\n")
        self.write(
            "docs/alone.md", "[to itself](alone.md)\n`d/b.md` `d/X.md`, `e/x.md`\n`d/x.md`\n"
        )
        self.assertEqual(
            links.check(self.root)[1],
            [
                "d/c.md:1: a.md: there is no d/a.md",
                "d/c.md:3: b.md#y: d/b.md has no heading 'y'",
                "d/c.md:3: ../a.md#one-2: a.md has no heading 'one-2'",
                "docs/alone.md:3: there is no d/x.md",
                "docs/alone.md: no page links to it",
            ],
        )

    def test_long_lines_are_found(self):
        long = "x" * (width.COLUMNS + 1)
        self.write("a.py", f'URL = "https://x.example/{long}"\n')
        self.write("data.json", f'["{long}"]\n')
        self.write("tests/fuzz/corpus/a/b", f"{long}\n")
        with open(os.path.join(self.root, "bytes"), "wb") as out:
            out.write(b"\xff" * (width.COLUMNS + 1))
        self.assertEqual(width.check(self.root), (1, []))
        self.write("b.sh", f"echo\necho {long}\n")
        self.write(".ci/run", f"#{long}\n")
        self.assertEqual(
            width.check(self.root)[1],
            ["b.sh:2: 106 columns; at most 100", ".ci/run:1: 102 columns; at most 100"],
        )

    def test_long_files_are_found(self):
        self.write("a.c", "\n" * lengths.MOST[".c"])
        self.write("b.h", "\n" * lengths.MOST[".h"])
        self.write("libtrain/train.h", "\n" * 1000)
        self.assertEqual(lengths.check(self.root), (3, []))
        self.write("c.h", "\n" * 201)
        self.write("d.c", "\n" * 501)
        self.assertEqual(
            lengths.check(self.root)[1],
            [
                "d.c: 501 lines; at most 500: cut it by subject",
                "c.h: 201 lines; at most 200: cut it by subject",
            ],
        )

    def test_files_in_another_format_are_found(self):
        if shutil.which("clang-format"):
            self.write("a.c", "int a;\n")
            self.assertEqual(layout.check(self.root), (1, []))
            self.write("b.c", "int  b;\nint  c;\n")
            self.write("c.h", "int  d;\n")
            count, problems = layout.check(self.root)
            self.assertEqual(
                (count, [text.split(":")[0] for text in problems]), (3, ["b.c", "c.h"])
            )

    def test_markdown_is_wrapped_outside_tables_and_code(self):
        long = "x" * (width.COLUMNS + 1)
        page = f"| {long} |\n```\n{long}\n```\n{long}\n[a]({long})\n"
        self.assertEqual(width.long_lines("a.md", page), [(5, width.COLUMNS + 1)])

    def test_linters_find_what_they_are_for(self):
        for tool, path, good, bad in [
            ("flake8", "a.py", "import os\n\nos.sync()\n", "import os\n"),
            ("shellcheck", "a.sh", '#!/bin/sh\necho "$1"\n', "#!/bin/sh\nrm $1\n"),
            ("yamllint", "a.yaml", "---\na: 1\n", "---\na: 1\na: 2\n"),
        ]:
            if shutil.which(tool):
                self.write(path, good)
                self.assertEqual(lint.check(self.root, tool), (1, []), tool)
                self.write(path, bad)
                self.assertTrue(lint.check(self.root, tool)[1][0].startswith(f"{path}:"), tool)

    def test_headers_that_need_another_are_found(self):
        self.write("a.h", "#include <stddef.h>\nsize_t good(void);\n")
        self.write("b.h", "size_t bad(void);\n")
        count, problems = headers.check(self.root, COMPILER, [])
        self.assertEqual(count, 2)
        self.assertEqual(len(problems), 1)
        self.assertTrue(problems[0].startswith("b.h: "))

    def archive(self, name, **sources):
        objects = []
        for member, text in sources.items():
            self.write(f"{name}/{member}.c", text)
            subprocess.run(
                [COMPILER, "-c", f"{member}.c", "-o", f"{member}.c.o"],
                cwd=os.path.join(self.root, name),
                check=True,
            )
            objects.append(os.path.join(self.root, name, f"{member}.c.o"))
        path = os.path.join(self.root, f"lib{name}.a")
        subprocess.run(["ar", "rcs", path, *objects], check=True)
        return path

    def test_upward_calls_and_unlisted_modules_are_found(self):
        order = calls.stated_order("SOURCES\n  # floor\n  low.c high.c\n  LINKS base)")
        self.assertEqual(order, ["low", "high"])
        defines = {"low": {"low_do"}, "high": {"high_do"}}
        self.assertEqual(calls.check(order, defines, {"high": {"low_do", "memcpy"}}), [])
        self.assertEqual(
            calls.check(order, defines, {"low": {"high_do"}}),
            ["low.c calls high_do of high.c, which is above it"],
        )
        self.assertEqual(calls.check(["low"], defines, {}), ["high.c: not in the order"])
        self.assertEqual(calls.listed("| a | `low` | x |\n| a | `high` | y |\n"), order)

    def test_symbols_that_two_archives_define_are_found(self):
        one = self.archive("one", a="int shared(void) { return 1; } static int s; int *p = &s;")
        other = self.archive("other", b="static int s; int *q = &s;")
        self.assertEqual(unique.check([one, other]), (3, []))
        third = self.archive("third", c="int shared(void) { return 2; }")
        self.assertEqual(
            unique.check([one, other, third])[1],
            ["shared: defined in libone.a(a) and in libthird.a(c)"],
        )

    def test_symbols_outside_the_list_are_found(self):
        helpers = self.archive(
            "helpers", good="int good(void) { return 1; }", clock="int clock_ms(void) { return 2; }"
        )
        pure = self.archive(
            "pure",
            a="""#include <string.h>
            #include <time.h>
            int good(void); int clock_ms(void); int inner(void);
            int outer(const char *t) {
                return (int)strlen(t) + inner() + good() + clock_ms() + (int)time(0);
            }""",
            b="int inner(void) { return 3; }",
        )
        self.assertEqual(
            symbols.check(pure, [f"{helpers}:good"])[1],
            ["libpure.a(a.c.o): asks for clock_ms", "libpure.a(a.c.o): asks for time"],
        )
        self.assertEqual(symbols.check(pure, [helpers])[1], ["libpure.a(a.c.o): asks for time"])

    def test_comments_and_literals_are_blanked_line_by_line(self):
        self.assertEqual(
            tree.blank('a /* b\n c */ "d\\"e" \'f\' // g\nh'), "a \n \"\" '' " + " \nh"
        )


if __name__ == "__main__":
    runner = unittest.TextTestRunner(stream=sys.stdout, verbosity=0)
    result = runner.run(unittest.defaultTestLoader.loadTestsFromTestCase(Borders))
    bad = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - bad} passed, {bad} failed, 0 skipped")
    sys.exit(1 if bad else 0)
