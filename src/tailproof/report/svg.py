"""Figures as inline SVG, in colours that the page decides."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.backend_bases import FigureCanvasBase, GraphicsContextBase, RendererBase
from matplotlib.colors import to_hex
from matplotlib.path import Path

from tailproof.report.plots import COLOURS, tips_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.font_manager import FontProperties
    from matplotlib.text import Text
    from matplotlib.transforms import Transform
    from matplotlib.typing import ColorType

_VARIABLES = {colour: f"var(--{name})" for name, colour in COLOURS.items()}
_ANCHORS = {"center": ' text-anchor="middle"', "right": ' text-anchor="end"'}
_LETTERS = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C"}
_CIRCLE = np.shape(Path.unit_circle().vertices)


def as_svg(axes: Axes, alt: str, *, style: str = "", name: str = "plot") -> str:
    """Return the figure of these axes as SVG.

    Parameters
    ----------
    axes
        From `page_axes`.
    alt
        A description of the picture, in one or two sentences.
    style
        A style sheet to include, for a stand-alone file.
    name
        Its class.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    for shapes in axes.collections:
        shapes.set_urls(tips_of(shapes))
    for shape in axes.patches:
        shape.set_url("".join(tips_of(shape)))
    width, height = figure.get_size_inches() * figure.dpi
    # The title of the y axis is above it, where long text has room.
    axes.yaxis.label.set(rotation=0, horizontalalignment="left", verticalalignment="baseline")
    axes.yaxis.set_label_coords(4 / width, 1 - 14 / height, transform=figure.transFigure)
    renderer = _Renderer(width, height)
    FigureCanvasBase(figure)
    figure.draw(renderer)
    head = f' xmlns="http://www.w3.org/2000/svg"><style>{style}</style>' if style else ">"
    return (
        f'<svg class="{name}" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{escape(alt)}"{head}{renderer.written()}</svg>'
    )


class _Element(NamedTuple):
    """An element: its tag, its style attributes (colours, strokes), and the rest."""

    tag: str
    look: str
    rest: str


class _Renderer(RendererBase):
    """Writes shapes and text; an artist's group id becomes a class, its links become tooltips."""

    def __init__(self, width: float, height: float) -> None:
        super().__init__()
        self._size = width, height
        self._groups: list[tuple[str | None, list[_Element]]] = [(None, [])]

    def written(self) -> str:
        """Return the SVG of everything drawn."""
        return "".join("".join(element) for element in self._groups[0][1])

    def get_canvas_width_height(self) -> tuple[float, float]:
        """Return the size of the picture."""
        return self._size

    def open_group(self, s: str, gid: str | None = None) -> None:  # noqa: ARG002
        """Begin the group of an artist."""
        self._groups.append((gid, []))

    def close_group(self, s: str) -> None:  # noqa: ARG002
        """End the group of an artist; style attributes that all its shapes share are written once."""
        name, elements = self._groups.pop()
        outside = self._groups[-1][1]
        if name is None:
            outside.extend(elements)
        elif elements:
            shared = elements[0].look if len({each.look for each in elements}) == 1 else ""
            inside = "".join(
                each.tag + ("" if shared else each.look) + each.rest for each in elements
            )
            outside.append(_Element("<g", shared, f' class="{escape(name)}">{inside}</g>'))

    def draw_path(
        self,
        gc: GraphicsContextBase,
        path: Path,
        transform: Transform,
        rgbFace: ColorType | None = None,
    ) -> None:
        """Write a path, as a circle if it is one."""
        look = _fill(rgbFace) + _stroke(gc)
        tip = f' data-tip="{escape(url)}"' if (url := gc.get_url()) else ""
        if np.shape(path.vertices) == _CIRCLE and path.codes is not None:
            x, y = transform.transform((0.0, 0.0))
            r = transform.transform((np.max(path.vertices), 0.0))[0] - x
            place = f' cx="{x:.1f}" cy="{self._size[1] - y:.1f}" r="{r:.3g}"'
            shape = _Element("<circle", look, f"{place}{tip}/>")
        else:
            shape = _Element("<path", look, f' d="{self._outline(path, transform)}"{tip}/>')
        self._groups[-1][1].append(shape)

    def _outline(self, path: Path, transform: Transform) -> str:
        parts = []
        for points, code in path.iter_segments(transform, simplify=False):
            if code == Path.CLOSEPOLY:
                parts.append("Z")
                continue
            places = np.reshape(points, (-1, 2)) * (1, -1) + (0, self._size[1])
            parts.append(_LETTERS[code] + " ".join(f"{x:.1f} {y:.1f}" for x, y in places))
        return "".join(parts)

    def draw_text(
        self,
        gc: GraphicsContextBase,
        x: float,
        y: float,
        s: str,
        prop: FontProperties,  # noqa: ARG002
        angle: float,
        ismath: bool | str = False,  # noqa: ARG002
        mtext: Text | None = None,
    ) -> None:
        """Write text in the page's font, anchored where matplotlib aligned it."""
        anchor = ""
        if mtext is not None:
            at = mtext.get_transform().transform(mtext.get_unitless_position())
            along = np.array([np.cos(np.deg2rad(angle)), -np.sin(np.deg2rad(angle))])
            start = np.array([x, y])
            x, y = start + along * ((at[0], self._size[1] - at[1]) - start).dot(along)
            anchor = _ANCHORS.get(mtext.get_horizontalalignment(), "")
        turn = f' transform="rotate({-angle:g} {x:.1f} {y:.1f})"' if angle else ""
        where = f' x="{x:.1f}" y="{y:.1f}"{anchor}{turn}'
        look = f' fill="{_colour(gc.get_rgb())[0]}"'
        self._groups[-1][1].append(_Element("<text", look, f"{where}>{escape(s)}</text>"))


def _colour(rgba: ColorType) -> tuple[str, float]:
    colour = to_hex(rgba)
    return _VARIABLES.get(colour, colour), float(rgba[3]) if len(rgba) == 4 else 1.0


def _fill(rgba: ColorType | None) -> str:
    colour, opacity = ("none", 1.0) if rgba is None else _colour(rgba)
    return f' fill="{colour}"' + (f' fill-opacity="{opacity:.2g}"' if opacity < 1 else "")


def _stroke(gc: GraphicsContextBase) -> str:
    colour, opacity = _colour(gc.get_rgb())
    width = gc.get_linewidth()
    if not width or not opacity:
        return ""
    _, dashes = gc.get_dashes()
    look = f' stroke="{colour}"' + (f' stroke-width="{width:g}"' if width != 1 else "")
    if opacity < 1:
        look += f' stroke-opacity="{opacity:.2g}"'
    if dashes is not None:
        look += f' stroke-dasharray="{" ".join(f"{each:g}" for each in np.asarray(dashes))}"'
    return look
