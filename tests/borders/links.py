"""Every relative link of a Markdown file leads to a file of the tree, and its anchor to a heading
there.

    links.py ROOT
"""

import os
import re
import sys

import tree

CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)


def anchors(text):
    """The anchors of a page's headings, as GitHub forms them."""
    seen = {}
    for heading in HEADING.findall(tree.without_fences(text)):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        seen[anchor] = seen.get(anchor, -1) + 1
    return {
        f"{anchor}-{number}" if number else anchor
        for anchor, last in seen.items()
        for number in range(last + 1)
    }


def problem_of(root, path, target):
    """Why the link leads nowhere; None when it leads somewhere."""
    name, _, anchor = target.partition("#")
    page = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
    if not os.path.exists(os.path.join(root, page)):
        return f"there is no {page}"
    if anchor and page.endswith(".md") and anchor not in anchors(tree.read(root, page)):
        return f"{page} has no heading '{anchor}'"
    return None


def check(root):
    pages, problems = tree.files(root, ".md"), []
    for path in pages:
        text = CODE.sub("", tree.without_fences(tree.read(root, path)))
        for number, line in enumerate(text.split("\n"), 1):
            for target in LINK.findall(line):
                if not re.match(r"[a-z]+:", target) and (problem := problem_of(root, path, target)):
                    problems.append(f"{path}:{number}: {target}: {problem}")
    return len(pages), problems


if __name__ == "__main__":
    tree.verdict("links", *check(sys.argv[1]))
