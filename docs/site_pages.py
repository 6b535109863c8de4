"""Pages of the site that are made of other files: the README, notes for contributors, examples and commands.

Links between them work in the repository; here they are turned into links between pages.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from hippotune.cli.main import COMMANDS, make_parser

ROOT = Path(__file__).parents[1]
NOTES = {"README": "index", "CONTRIBUTING": "contributing", "SECURITY": "security", "CHANGELOG": "changelog"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    made = {f"{page}.md": (ROOT / f"{note}.md").read_text() for note, page in NOTES.items()}
    made["reference/commands.md"] = commands()
    for path in sorted((ROOT / "examples").rglob("*.py")):
        name = path.relative_to(ROOT)
        made[f"{name.with_suffix('.md')}"] = f"# `{name}`\n\n```python\n{path.read_text()}```\n"
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links to files of the repository into links to pages."""
    for note, name in NOTES.items():
        markdown = re.sub(rf"\]\((\.\./)?{note}\.md", f"]({name}.md", markdown)
    if page.file.src_uri in {f"{name}.md" for name in NOTES.values()}:
        markdown = re.sub(r'(\]\(|=")docs/', r"\1", markdown)
    return re.sub(r"\]\((?:\.\./)?(examples/[\w/]+)\.py\)", r"](\1.md)", markdown)


def commands() -> str:
    """Return the page of all commands: what ``--help`` prints."""
    parser = make_parser()
    (subparsers,) = (action for action in parser._actions if action.choices and "run" in action.choices)
    parts = ["# The command line", "What `hippo --help` and the help of every command print.", _help(parser)]
    for name in COMMANDS:
        parts += [f"## `hippo {name}`", _help(subparsers.choices[name])]
    return "\n\n".join(parts) + "\n"


def _help(parser: object) -> str:
    return f"```text\n{parser.format_help()}```"
