"""A second, minimal decoder, written from docs/PROTOCOL.md alone: if the two disagree, the page or
a decoder is wrong.

It shares nothing with the tool's: its own COBS, its own CRC-32, its own CBOR. It knows no faults
but "not a frame", judges no sequence, and is slow. Yields (type number, stream, sequence, time,
part, parts, body) of each good frame.
"""


def _crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ 0xEDB88320 if value & 1 else value >> 1
        table.append(value)
    return table


_TABLE = _crc_table()


def crc32(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def unstuff(block: bytes) -> bytes:
    out = []
    index = 0
    while index < len(block):
        code = block[index]
        if code == 0 or index + code > len(block):
            raise ValueError("not COBS")
        out.extend(block[index + 1 : index + code])
        index += code
        if code < 0xFF and index < len(block):
            out.append(0)
    return bytes(out)


class Reader:
    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise ValueError("ends early")
        self.at += count
        return self.data[self.at - count : self.at]

    def item(self):
        head = self.take(1)[0]
        major, argument = head >> 5, head & 0x1F
        if argument >= 24:
            if argument > 27:
                raise ValueError("no definite length")
            argument = int.from_bytes(self.take(1 << (argument - 24)), "big")
        if major == 0:
            return argument
        if major == 1:
            return -1 - argument
        if major == 3:
            return self.take(argument).decode("utf-8")
        if major == 4:
            return [self.item() for _ in range(argument)]
        if major == 5:
            return {self.item(): self.item() for _ in range(argument)}
        if head in (0xF4, 0xF5):
            return head == 0xF5
        raise ValueError("nothing that the protocol uses")


def frames(stream: bytes):
    for segment in stream.split(b"\0"):
        if not segment or len(segment) > 4094:
            continue
        try:
            plain = unstuff(segment)
            payload, check = plain[:-4], plain[-4:]
            if len(payload) > 4000 or crc32(payload) != int.from_bytes(check, "little"):
                continue
            reader = Reader(payload)
            record = reader.item()
        except (ValueError, RecursionError):
            continue
        if reader.at == len(payload) and isinstance(record, list) and len(record) == 7:
            yield tuple(record)


def made(stream: bytes):
    """Of each record of stream 255 that says how many of each type came before it: (told, counted)."""
    counts = [0] * 12
    for kind, source, _, _, _, _, body in frames(stream):
        if source != 255:
            continue
        if isinstance(body, dict) and "made" in body:
            yield body["made"], list(counts)
        counts[kind] += 1


def records(stream: bytes):
    """Whole records of an undamaged capture, parts joined: (type, stream, sequence of part 0, time,
    body)."""
    open_: dict = {}
    for kind, source, sequence, time, part, parts, body in frames(stream):
        key = (source, sequence - part)
        if part == 0:
            open_[key] = (kind, time, body)
        else:
            whole = open_[key][2]
            if isinstance(whole, list):
                whole.extend(body)
            for name, value in body.items() if isinstance(body, dict) else ():
                if isinstance(value, dict) and name in whole:
                    whole[name].update(value)
                elif isinstance(value, list) and name in whole:
                    whole[name].extend(value)
                elif isinstance(value, str) and name in whole:
                    whole[name] += value
                else:
                    whole[name] = value
        if part == parts - 1:
            kind, time, body = open_.pop(key)
            yield kind, source, sequence - part, time, body
