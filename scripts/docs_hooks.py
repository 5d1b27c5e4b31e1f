#!/usr/bin/env python3
"""Hooks of mkdocs.yml: the site includes the repository files that pages name, and has each schema at the address in its $id."""
import pathlib
import re
import shutil

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(\.\./((?!\.\.)[\w./-]+)\)")


def on_page_markdown(markdown, page, config, files):
    up = "../" * page.url.count("/")
    # a table on GitHub needs the backslash in code; other readers of Markdown show it
    markdown = re.sub(r"^\|.*$", lambda row: CODE.sub(lambda code: code.group().replace("\\|", "|"), row.group()), markdown, flags=re.M)
    return LINK.sub(lambda found: f"]({up}{target(found.group(1))})", markdown)


def target(path):
    """The place of a repository file in the site: schemas at schema/, others at files/."""
    return path if path.startswith("schema/") else f"files/{path}"


def on_post_build(config):
    site = pathlib.Path(config["site_dir"])
    docs = pathlib.Path(config["docs_dir"])
    named = {found for page in docs.glob("*.md") for found in LINK.findall(page.read_text(encoding="utf-8"))}
    named |= {str(path.relative_to(ROOT)) for path in (ROOT / "schema").glob("*.json")}
    for path in sorted(named):
        to = site / target(path)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, to)
