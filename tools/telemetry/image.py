"""Reads what a built image says of itself: the raw knob list in ELF section .hayloft.knobs, and the names of its
tests in .hayloft.tests.

Only what that takes of ELF64 little endian is read, every offset is checked against the file, and a file
that is no such image is an error in one line. Booting is the machines' business.
"""

import hashlib
import pathlib
import struct

from . import defs
from .errors import HayloftError

SECTION = b".hayloft.knobs"
TESTS = b".hayloft.tests"


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def read_section(path, wanted=SECTION):
    """The bytes of one section of an ELF64 file."""
    data = pathlib.Path(path).read_bytes()
    if data[:6] != b"\x7fELF\x02\x01" or len(data) < 64:
        raise HayloftError(f"{path}: not an ELF64 image; give a kernel.elf or a hayloft-host")
    table, = struct.unpack_from("<Q", data, 40)
    size, count, names_index = struct.unpack_from("<HHH", data, 58)

    def header(index):
        at = table + index * size
        if index >= count or size < 64 or at + 64 > len(data):
            raise HayloftError(f"{path}: its section table is cut off; build it again")
        name, _, _, _, offset, length = struct.unpack_from("<IIQQQQ", data, at)
        return name, offset, length

    def bytes_of(offset, length):
        if offset + length > len(data):
            raise HayloftError(f"{path}: a section reaches past the end of the file; build it again")
        return data[offset:offset + length]

    _, names_offset, names_length = header(names_index)
    names = bytes_of(names_offset, names_length)
    for index in range(count):
        name, offset, length = header(index)
        if names[name:names.find(b"\0", name)] == wanted:
            return bytes_of(offset, length)
    raise HayloftError(f"{path}: no section {wanted.decode()} in it; is it a Hayloft image?")


def read_knobs(path):
    """The Knobs that this image was built with."""
    text = read_section(path).rstrip(b"\0").decode("utf-8", "replace")
    return defs.parse_knobs(text, f"{path}({SECTION.decode()})")


def read_tests(path):
    """The names of the tests in this image; None of one that does not tell them."""
    try:
        return read_section(path, TESTS).rstrip(b"\0").decode("utf-8", "replace").split()
    except HayloftError:
        return None
