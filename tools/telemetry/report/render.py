"""Blocks to Markdown (to paste into a patch review) and to one self-contained HTML file.

The HTML has no script and loads nothing: pictures are embedded. Everything that comes from an archive is
escaped.
"""

from __future__ import annotations

import base64
import html
import re
from pathlib import Path

from .content import Bullets, Figure, Heading, Paragraph, Table

STYLE = """
:root { color-scheme: light dark; --ink: #1c2126; --soft: #5a6570; --line: #dfe3e6; --paper: #fff; --wash: #f5f7f8;
  --good: #0b6e4f; --bad: #b3371e; --warn: #8a6100; }
@media (prefers-color-scheme: dark) { :root { --ink: #dde3e8; --soft: #98a4ae; --line: #343c43; --paper: #15191d;
  --wash: #1d2328; --good: #5cc8a0; --bad: #f08a70; --warn: #dcb24c; } img { background: #fff; } }
body { margin: 0 auto; padding: 2.5rem 1.5rem 4rem; max-width: 62rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 "Source Sans 3", "Segoe UI", "Helvetica Neue", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 1rem; font-weight: 600; }
h2 { font-size: 1.15rem; margin: 2.6rem 0 .6rem; font-weight: 600; border-bottom: 1px solid var(--line);
  padding-bottom: .25rem; }
p, ul { max-width: 46rem; margin: .5rem 0; }
p.lead { font-size: 1.15rem; line-height: 1.5; margin: 0 0 1.2rem; }
p .label { color: var(--soft); font-weight: 600; margin-right: .5em; }
ul { padding-left: 1.2rem; } li { margin: .15rem 0; }
code { font: .86em "DejaVu Sans Mono", Menlo, Consolas, monospace; background: var(--wash); padding: .05em .3em;
  border-radius: 3px; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; }
th { text-align: right; font-weight: 600; color: var(--soft); vertical-align: bottom; }
th, td { padding: .28rem .7rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { padding-left: 0; }
td { text-align: right; white-space: nowrap; } td.text, th.text { text-align: left; }
td.long { white-space: normal; min-width: 14rem; text-align: left; color: var(--soft); }
tr.faster td.verdict { color: var(--good); } tr.slower td.verdict { color: var(--bad); }
tr.unreliable td.verdict, tr.refused td.verdict, tr.undecided td.verdict { color: var(--warn); }
figure { margin: 1.4rem 0; } img { max-width: 100%; height: auto; display: block; border-radius: 4px; }
figcaption { color: var(--soft); font-size: .88rem; max-width: 46rem; margin-top: .35rem; }
"""
LONG_CELL = 34  # characters from which a cell may wrap


def markdown(blocks: list) -> str:
    out, first = [], True
    for block in blocks:
        if isinstance(block, Heading):
            out.append(f"{'#' if first else '##'} {block.text}")
            first = False
        elif isinstance(block, Paragraph):
            label = f"**{block.label}:** " if block.label else ""
            text = f"**{block.text}**" if block.lead and "`" not in block.text else block.text
            out.append((label + text).rstrip())
        elif isinstance(block, Bullets):
            out.append("\n".join(f"- {item}" for item in block.items))
        elif isinstance(block, Table):
            out.append(_markdown_table(block))
        elif isinstance(block, Figure):
            out.append(f"![{block.alt}]({block.file})\n\n{block.caption}")
    return "\n\n".join(out) + "\n"


def _markdown_table(table: Table) -> str:
    rows = [[_cell(text) for text in row] for row in [table.columns, *table.rows]]
    widths = [max(3, *(len(row[c]) for row in rows)) for c in range(len(table.columns))]

    def line(row):
        return "| " + " | ".join(
            text.ljust(widths[c]) if table.is_text(c) else text.rjust(widths[c]) for c, text in enumerate(row)) + " |"

    rule = "|" + "|".join(
        ("-" * (widths[c] + 2)) if table.is_text(c) else ("-" * (widths[c] + 1) + ":") for c in range(len(widths))) + "|"
    return "\n".join([line(rows[0]), rule, *(line(row) for row in rows[1:])])


def _cell(text: str) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")


def page(blocks: list, folder: Path) -> str:
    """The whole HTML file; pictures are read from the run's folder."""
    title = next((block.text for block in blocks if isinstance(block, Heading)), "Hayloft")
    body, first = [], True
    for block in blocks:
        if isinstance(block, Heading):
            level = 1 if first else 2
            body.append(f"<h{level}>{_inline(block.text)}</h{level}>")
            first = False
        elif isinstance(block, Paragraph):
            label = f'<span class="label">{_inline(block.label)}</span>' if block.label else ""
            body.append(f'<p{" class=lead" if block.lead else ""}>{label}{_inline(block.text)}</p>')
        elif isinstance(block, Bullets):
            body.append("<ul>" + "".join(f"<li>{_inline(item)}</li>" for item in block.items) + "</ul>")
        elif isinstance(block, Table):
            body.append(_html_table(block))
        elif isinstance(block, Figure):
            body.append(_html_figure(block, folder))
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n<body>\n" + "\n".join(body)
            + "\n</body></html>\n")


def _inline(text: str) -> str:
    text = html.escape(text)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", text)


def _html_table(table: Table) -> str:
    head = "".join(f'<th class="{"text" if table.is_text(c) else "num"}">{_inline(name)}</th>'
                   for c, name in enumerate(table.columns))
    rows = []
    for number, row in enumerate(table.rows):
        mark = table.marks[number] if number < len(table.marks) else ""
        cells = []
        for c, text in enumerate(row):
            kind = "text" if table.is_text(c) else "num"
            if len(text) > LONG_CELL and c >= table.left:
                kind = "long"
            if table.columns[c] in ("verdict", "held", "outcome"):
                kind += " verdict"
            cells.append(f'<td class="{kind}">{_inline(text)}</td>')
        rows.append(f'<tr class="{html.escape(mark)}">{"".join(cells)}</tr>')
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _html_figure(figure: Figure, folder: Path) -> str:
    data = base64.b64encode((folder / figure.file).read_bytes()).decode("ascii")
    return (f'<figure><img alt="{html.escape(figure.alt)}" src="data:image/png;base64,{data}">'
            f"<figcaption>{_inline(figure.caption)}</figcaption></figure>")
