"""What a report is made of: blocks that Markdown and HTML both render (render.py)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Heading:
    text: str


@dataclass
class Paragraph:
    text: str
    label: str = ""  # a word in front, set off from the text
    lead: bool = False  # the answer itself


@dataclass
class Bullets:
    items: list[str]


TEXT_COLUMNS = ("verdict", "verdict as measured", "verdict as adjusted", "outcome", "held", "note", "what it is")


@dataclass
class Table:
    columns: list[str]
    rows: list[list[str]]
    left: int = 1  # so many columns hold text; of the rest those named in TEXT_COLUMNS, the others numbers
    marks: list[str] = field(default_factory=list)  # one verdict a row, for colour

    def is_text(self, column: int) -> bool:
        return column < self.left or self.columns[column] in TEXT_COLUMNS


@dataclass
class Figure:
    file: str
    alt: str
    caption: str
