"""Where in a TOML text a key stands, since the standard parser does not say.

A light scan: table headers, and keys at the start of a line outside multi-line values. It also finds a key
that is named twice, which the parser reports only as "cannot overwrite". Where the scan cannot tell, the
line is None and the message goes without one: the scan never decides what is legal.
"""

import re

_HEADER = re.compile(r"^\s*\[\[?\s*([^\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""^\s*((?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+))*)\s*=""")
_PART = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*(?:\.|$)""")


def _split(dotted):
    return tuple(next(group for group in found if group is not None)
                 for found in (match.groups() for match in _PART.finditer(dotted)))


def _depth(line):
    """How many brackets a line opens beyond those that it closes, outside its strings and comment."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'', "", line).split("#", 1)[0]
    return sum(bare.count(c) for c in "[{") - sum(bare.count(c) for c in "]}")


class Lines:
    """Line numbers of the keys of a text, by their path: ("arms", "B") → 12."""

    def __init__(self, text):
        self.at = {}
        self.twice = []  # (path, first line, second line)
        table, inside, quoted = (), 0, None
        for number, line in enumerate(text.split("\n"), 1):
            if quoted:
                if quoted in line:
                    quoted = None
                continue
            if inside > 0:
                inside += _depth(line)
                continue
            header = _HEADER.match(line)
            if header:
                table = _split(header[1])
                self._note(table, number, again=not line.lstrip().startswith("[["))
                continue
            key = _KEY.match(line)
            if not key:
                continue
            self._note(table + _split(key[1]), number)
            rest = line[key.end():]
            for fence in ('"""', "'''"):
                if rest.count(fence) == 1:
                    quoted = fence
            inside = max(0, _depth(rest))

    def _note(self, path, number, again=True):
        if path in self.at and again:
            self.twice.append((path, self.at[path], number))
        self.at.setdefault(path, number)

    def line(self, *path):
        """The line of the longest known beginning of path, or None."""
        while path:
            if path in self.at:
                return self.at[path]
            path = path[:-1]
        return None
