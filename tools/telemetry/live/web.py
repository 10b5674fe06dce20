"""The live page: the board through Matplotlib's WebAgg, served by tornado on loopback only.

One process, one thread. A timer polls the feed and draws what changed: at most once a second while
the boot is in a timed section, a few times a second outside (the kernel halts its CPUs between
rounds so that the view is served). Nothing is drawn while nobody looks. Any number of browsers may
look; a page that joins late gets the whole picture.

    /             the page
    /ws           WebAgg's socket
    /mpl.js       WebAgg's script
    /panels.json  where the panels are, how many frames were drawn
"""

from __future__ import annotations

import html
import json
import logging
import socket
import sys
import time

import tornado.httpserver
import tornado.ioloop
import tornado.netutil
import tornado.web
import tornado.websocket
from matplotlib.backends.backend_webagg_core import FigureCanvasWebAggCore, FigureManagerWebAgg

from ..errors import EXIT_MACHINE, HayloftError
from .board import DPI, SIZE, Board

TIMED_PAUSE = 1.0  # seconds between frames inside timed sections
PAUSE = 0.35  # and outside
POLL = 0.1  # how often the clock is looked at
RATIO_LEAST, RATIO_MOST = 0.5, 3  # dots a pixel of the page: more would cost more than it shows
REQUESTS = ("draw", "refresh", "send_image_mode", "ack", "set_device_pixel_ratio")

PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<link rel="icon" href="data:,">
<style>
  html, body {{ margin: 0; background: #fff; overflow: auto; font: 14px sans-serif; }}
  #board {{ width: {width}px; height: {height}px; position: relative; overflow: hidden;
           margin: 0 auto; }}
  #board div {{ border: 0 !important; resize: none !important; outline: none; }}
  .ui-dialog-titlebar, .mpl-toolbar, .ui-helper-clearfix {{ display: none !important; }}
  #board canvas {{ left: 0; top: 0; outline: none; }}
  #gone {{ display: none; position: fixed; right: 12px; top: 8px; padding: 4px 10px;
          background: #fff3cd; border: 1px solid #c9a227; border-radius: 4px; }}
</style>
<script src="mpl.js"></script></head>
<body><div id="board" role="img" aria-label="Live plots"></div>
<div id="gone" role="status">The view has ended; this is its last picture.</div>
<noscript>This page draws with JavaScript.</noscript>
<script>
  const place = new URL("ws", location.href);
  place.protocol = place.protocol.replace("http", "ws");
  const socket = new WebSocket(place);
  const figure = new mpl.figure("board", socket, () => {{}}, document.getElementById("board"));
  const gone = document.getElementById("gone");
  socket.addEventListener("close", () => {{ gone.style.display = "block"; }});
</script></body></html>
"""


class Canvas(FigureCanvasWebAggCore):
    """A WebAgg canvas that is drawn by panels. Browsers can ask for the whole picture and for
    nothing else."""

    board: Board

    def draw(self) -> None:
        renderer = self.get_renderer()
        renderer.clear()
        self.board.forget()
        self.board.draw(self, self.board.panels)
        self.show_pixels()

    def show_pixels(self) -> None:
        self._png_is_old = True
        self.manager.refresh_all()

    def handle_event(self, event):
        kind = event.get("type") if isinstance(event, dict) else None
        if kind == "set_device_pixel_ratio":
            ratio = event.get("device_pixel_ratio")
            if not isinstance(ratio, (int, float)) or not RATIO_LEAST <= ratio <= RATIO_MOST:
                return None
        return super().handle_event(event) if kind in REQUESTS else None


class View:
    """The board, its feed, and the browsers that look at it."""

    def __init__(self, feed, title: str = ""):
        self.feed = feed
        self.board = Board()
        self.canvas = Canvas(self.board.figure)
        self.canvas.board = self.board
        self.manager = FigureManagerWebAgg(self.canvas, 0)
        self.title = title
        self.frames = 0
        self._drawn_at = 0.0
        self.board.refresh(feed.state)

    @property
    def page_title(self) -> str:
        return f"Hayloft live: {self.feed.state.title or self.title or 'waiting'}"

    def turn(self) -> None:
        """One look at the clock: reads what is new and draws it, if it is time."""
        boot = self.feed.state.current
        pause = TIMED_PAUSE if boot is not None and boot.timed else PAUSE
        if time.monotonic() - self._drawn_at < pause and not self.feed.ended:
            return
        self._drawn_at = time.monotonic()
        self.feed.poll()
        if not self.manager.web_sockets:
            return
        panels = self.board.refresh(self.feed.state)
        if panels:
            self.board.draw(self.canvas, panels)
            self.canvas.show_pixels()
            self.frames += 1


class _Page(tornado.web.RequestHandler):
    def get(self):
        width, height = (round(inches * DPI) for inches in SIZE)
        title = html.escape(self.application.settings["view"].page_title)
        self.set_header("Cache-Control", "no-store")
        self.write(PAGE.format(title=title, width=width, height=height))


class _Script(tornado.web.RequestHandler):
    def get(self):
        self.set_header("Content-Type", "application/javascript")
        self.write(FigureManagerWebAgg.get_javascript())


class _Panels(tornado.web.RequestHandler):
    def get(self):
        view = self.application.settings["view"]
        state = view.feed.state
        boot = state.current
        self.set_header("Cache-Control", "no-store")
        self.write({
            "title": view.page_title, "size": [round(inches * DPI) for inches in SIZE],
            "panels": view.board.rectangles(), "frames": view.frames, "ended": view.feed.ended,
            "boot": boot.id if boot else None, "records": boot.records if boot else 0,
            "boots": len(state.boots),
        })


class _Socket(tornado.websocket.WebSocketHandler):
    def open(self, *_):
        self.set_nodelay(True)
        self.application.settings["view"].manager.add_web_socket(self)

    def on_close(self):
        self.application.settings["view"].manager.web_sockets.discard(self)

    def on_message(self, message):
        """A browser's request. What is not understood is ignored: pages are not trusted either."""
        try:
            event = json.loads(message)
        except ValueError:
            return
        view = self.application.settings["view"]
        view.board.refresh(view.feed.state)
        view.manager.handle_json(event)

    def send_json(self, content):
        self._send(json.dumps(content), binary=False)

    def send_binary(self, blob):
        self._send(blob, binary=True)

    def _send(self, message, binary):
        try:
            self.write_message(message, binary=binary)
        except tornado.websocket.WebSocketClosedError:
            pass


def application(view: View) -> tornado.web.Application:
    routes = [(r"/", _Page), (r"/mpl\.js", _Script), (r"/panels\.json", _Panels), (r"/ws", _Socket)]
    return tornado.web.Application(routes, view=view)


def listen(port: int | None) -> socket.socket:
    try:
        return tornado.netutil.bind_sockets(port or 0, "127.0.0.1")[0]
    except (OSError, OverflowError) as error:
        raise HayloftError(f"port {port} cannot be used for the live page: {error}; "
                           "choose another with --port", EXIT_MACHINE) from None


def serve(feed, port: int | None = None, linger: float | None = None, alive=lambda: True,
          say=None) -> None:
    """Serves until Ctrl-C, until `alive` says no, or `linger` seconds after the feed's end (None:
    for ever). `say` is told the page's address."""
    logging.getLogger("tornado").setLevel(logging.ERROR)
    view = View(feed)
    listener = listen(port)
    server = tornado.httpserver.HTTPServer(application(view))
    server.add_socket(listener)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    (say or _print_address)(address)
    loop = tornado.ioloop.IOLoop.current()
    ended_at: list[float] = []

    def turn():
        view.turn()
        if feed.ended and not ended_at:
            ended_at.append(time.monotonic())
        over = ended_at and linger is not None and time.monotonic() - ended_at[0] >= linger
        if over or not alive():
            loop.stop()

    clock = tornado.ioloop.PeriodicCallback(turn, POLL * 1000)
    clock.start()
    try:
        loop.start()
    finally:
        clock.stop()
        server.stop()


def _print_address(address: str) -> None:
    print(address)
    sys.stdout.flush()
