"""python3 -m telemetry.live.looker ADDRESS: looks at a live page as a browser does, and throws the
pictures away.

A page that nobody looks at is not drawn, so a view costs next to nothing then; an experiment about
its cost needs somebody who looks, always in the same way. What a browser itself costs the host is
not in it.

It speaks WebAgg's protocol as far as the page's script does. The first line on standard output
comes with the first picture; it ends when the page does, or with its parent.
"""

import json
import os
import sys

import tornado.ioloop
import tornado.websocket

ANSWERED = ("draw", "refresh")  # what the page's script answers in kind


async def look(address: str, say) -> int:
    """Looks until the page is gone; returns how many pictures came. say: called with the first."""
    place = address.replace("http", "ws", 1).rstrip("/") + "/ws"
    socket = await tornado.websocket.websocket_connect(place)
    for kind in ("send_image_mode", "refresh", "draw"):
        await socket.write_message(json.dumps({"type": kind}))
    pictures = 0
    while (message := await socket.read_message()) is not None:
        if isinstance(message, bytes):
            pictures += 1
            if pictures == 1:
                say()
            await socket.write_message(json.dumps({"type": "ack"}))
        elif (kind := json.loads(message).get("type")) in ANSWERED:
            await socket.write_message(json.dumps({"type": kind}))
    return pictures


def main() -> int:
    os.nice(19)
    try:
        tornado.ioloop.IOLoop().run_sync(
            lambda: look(sys.argv[1], lambda: print("looking", flush=True)))
    except OSError as error:
        print(f"{sys.argv[1]}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
