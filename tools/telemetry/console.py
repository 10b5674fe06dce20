"""Where tables for people go: terminals of any width, and pipes.

  console()   a rich Console for other people's texts: brackets and colons in a title mean themselves
  show()      a table as it fits: digits are never cut, since cut digits look like values. A table that is too wide is
              told a row at a time
"""

from rich.console import Console
from rich.measure import Measurement
from rich.text import Text

PIPE_WIDTH = 160


def console(file=None, width=PIPE_WIDTH, stderr=False):
    """width: where nobody's terminal says how wide it is."""
    made = Console(file=file, stderr=stderr, highlight=False, markup=False, emoji=False)
    if made.is_terminal:
        return made
    return Console(file=file, stderr=stderr, highlight=False, markup=False, emoji=False, width=width)


def fits(out, table):
    return Measurement.get(out, out.options.update(max_width=10_000), table).maximum <= out.width


def show(out, table):
    """table: a rich Table whose cells hold texts."""
    if fits(out, table):
        out.print(table)
        return
    for line in stacked(table):
        out.print(line)


def stacked(table):
    """The rows one below the other: the first cell, then 'header: cell' of the others, as Texts."""
    heads = [plain(column.header) for column in table.columns]
    for cells in zip(*(list(column.cells) for column in table.columns)):
        yield Text.assemble((plain(cells[0]), "bold"))
        for head, cell in zip(heads[1:], cells[1:]):
            if plain(cell):
                yield Text.assemble(f"  {head}: " if head else "  ", cell if isinstance(cell, Text) else str(cell))


def plain(cell):
    return cell.plain if isinstance(cell, Text) else str(cell)
