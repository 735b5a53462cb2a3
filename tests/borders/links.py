"""Every relative link in Markdown has a target in the tree, and its anchor a heading. Some page
links to every page of docs/. A path in a code span exists.

    links.py ROOT
"""

import os
import re
import sys

import tree

CODE = re.compile(r"`[^`\n]*`")
PATH = re.compile(r"`([a-z]+/[a-z0-9_./-]+)`")  # placeholders have capitals
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


def page_of(path, target):
    name = target.partition("#")[0]
    return os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path


def problem_of(root, path, target):
    """Why the link is broken; None if it is not."""
    page, anchor = page_of(path, target), target.partition("#")[2]
    if not os.path.exists(os.path.join(root, page)):
        return f"there is no {page}"
    if anchor and page.endswith(".md") and anchor not in anchors(tree.read(root, page)):
        return f"{page} has no heading '{anchor}'"
    return None


def missing_paths(root, text):
    for span in PATH.finditer(text):
        name = span.group(1)
        top = name.partition("/")[0]
        inside = top not in tree.SKIPPED_DIRECTORIES and os.path.isdir(os.path.join(root, top))
        if inside and not os.path.exists(os.path.join(root, name)):
            line = text.count("\n", 0, span.start()) + 1
            yield f"{line}: there is no {name}"


def check(root):
    pages, problems, linked = tree.files(root, ".md"), [], set()
    for path in pages:
        whole = tree.without_fences(tree.read(root, path))
        problems += [f"{path}:{problem}" for problem in missing_paths(root, whole)]
        text = CODE.sub("", whole)
        for link in LINK.finditer(text):
            target = link.group(1)
            if re.match(r"[a-z]+:", target):
                continue
            if page_of(path, target) != path:
                linked.add(page_of(path, target))
            if problem := problem_of(root, path, target):
                line = text.count("\n", 0, link.start()) + 1
                problems.append(f"{path}:{line}: {target}: {problem}")
    problems += [
        f"{path}: no page links to it"
        for path in pages
        if path.startswith("docs/") and path not in linked
    ]
    return len(pages), problems


if __name__ == "__main__":
    tree.verdict("links", *check(sys.argv[1]))
