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
LAST_READS = 20  # of what the feed has, before the last picture
UNSENT_MOST = 1 << 20  # bytes under way to one browser; some pictures
PARTING = 0.5  # seconds for browsers to take the last picture

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
  #wait {{ position: absolute; left: 0; right: 0; top: 45%; text-align: center; color: #666; }}
  #gone {{ display: none; position: fixed; z-index: 10; right: 12px; top: 8px; max-width: 60em;
          padding: 4px 10px; background: #fff3cd; border: 1px solid #c9a227; border-radius: 4px; }}
</style>
<script src="mpl.js"></script></head>
<body><div id="board" role="img" aria-label="Live plots"></div>
<div id="wait" role="status">Drawing the first picture …</div>
<div id="gone" role="status">The view has ended; this is its last picture. Reloading shows nothing.</div>
<noscript>This page draws with JavaScript.</noscript>
<script>
  const place = new URL("ws", location.href);
  place.protocol = place.protocol.replace("http", "ws");
  const socket = new WebSocket(place);
  const figure = new mpl.figure("board", socket, () => {{}}, document.getElementById("board"));
  const gone = document.getElementById("gone");
  /* A picture may have more dots than this page asked for: another page may look with a finer one. */
  const show = figure.imageObj.onload;
  figure.imageObj.onload = () => {{
    const {{ canvas, imageObj }} = figure;
    document.getElementById("wait").style.display = "none";
    if (canvas.width !== imageObj.naturalWidth || canvas.height !== imageObj.naturalHeight) {{
      canvas.width = imageObj.naturalWidth;
      canvas.height = imageObj.naturalHeight;
    }}
    show();
  }};
  mpl.figure.prototype.handle_ended = (_, message) => {{ gone.textContent = message.text; }};
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

    def fit(self) -> None:
        """As many dots as the finest page that looks; the others scale it down."""
        finest = max((page.ratio for page in self.manager.web_sockets), default=1)
        if finest != self.canvas.device_pixel_ratio:
            self.manager.handle_json({"type": "set_device_pixel_ratio", "device_pixel_ratio": finest})

    def finish(self) -> None:
        """The last picture, of all that there is, and what to do now."""
        for _ in range(LAST_READS):
            if not self.feed.poll() or self.feed.ended:
                break
        if not self.manager.web_sockets:
            return
        self._draw()
        state, report = self.feed.state.state, getattr(self.feed, "report", None)
        text = f"{'The view has ended' if state == 'running' else f'The run is {state}'}; this is its last picture."
        if report is not None and state == "done":
            text += f" Its report is {report}."
        for page in list(self.manager.web_sockets):
            page.send_json({"type": "ended", "text": f"{text} Reloading shows nothing."})

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
        if self.manager.web_sockets:
            self._draw()

    def _draw(self) -> None:
        """What changed since the picture before."""
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
    """One browser. Pictures are differences to the one before, so a browser that does not take what it was
    sent gets nothing more until it has, and then the whole picture."""

    def open(self, *_):
        self.set_nodelay(True)
        self.ratio = 1
        self.unsent = 0  # bytes that the browser has not taken yet
        self.behind = False
        self.view = self.application.settings["view"]
        self.view.manager.add_web_socket(self)
        self.view.fit()

    def on_close(self):
        self.view.manager.web_sockets.discard(self)
        self.view.fit()

    def on_message(self, message):
        """A browser's request. What is not understood is ignored: pages are not trusted either."""
        try:
            event = json.loads(message)
        except ValueError:
            return
        self.view.board.refresh(self.view.feed.state)
        if isinstance(event, dict) and event.get("type") == "set_device_pixel_ratio":
            ratio = event.get("device_pixel_ratio")
            if isinstance(ratio, (int, float)) and RATIO_LEAST <= ratio <= RATIO_MOST:
                self.ratio = ratio
                self.view.fit()
            return
        self.view.manager.handle_json(event)

    def send_json(self, content):
        self._send(json.dumps(content), binary=False)

    def send_binary(self, blob):
        self._send(blob, binary=True)

    def _send(self, message, binary):
        self.behind = self.behind or self.unsent > UNSENT_MOST
        if self.behind:
            return
        try:
            sent = self.write_message(message, binary=binary)
        except tornado.websocket.WebSocketClosedError:
            return
        self.unsent += len(message)
        sent.add_done_callback(lambda sent: self._taken(sent, len(message)))

    def _taken(self, sent, size):
        self.unsent -= size
        if sent.exception() is None and self.behind and not self.unsent:
            self.behind = False
            self.view.manager.handle_json({"type": "refresh"})


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
    stopping: list[Exception | None] = []

    def turn():
        if stopping:
            return
        try:
            view.turn()
        except Exception as error:  # once, not at every turn
            stopping.append(error)
            loop.stop()
            return
        if feed.ended and not ended_at:
            ended_at.append(time.monotonic())
            view.finish()
            if getattr(feed, "gone", ""):
                print(f"hayloft: the line is gone: {feed.gone}; the picture stays until Ctrl-C", file=sys.stderr, flush=True)
        over = ended_at and linger is not None and time.monotonic() - ended_at[0] >= linger
        if over or not alive():
            stopping.append(None)
            view.finish()
            loop.call_later(PARTING, loop.stop)

    clock = tornado.ioloop.PeriodicCallback(turn, POLL * 1000)
    clock.start()
    try:
        loop.start()
    finally:
        clock.stop()
        server.stop()
    if stopping and stopping[0] is not None:
        raise stopping[0]


def _print_address(address: str) -> None:
    print(address)
    sys.stdout.flush()
