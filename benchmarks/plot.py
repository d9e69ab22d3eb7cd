"""Draws speeds against model size, threads, context and batch, as SVG."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import cases
from engines import Engines, Figures, Work

_WIDTH, _HEIGHT, _MARGIN = 340, 240, 46
_COLOURS = {"rase": "#0b6e4f", "llama.cpp": "#b3541e"}
_DEPTHS = (0, 1024, 4096)
_BATCHES = (1, 2, 4, 8, 16)
_PREFILL, _DECODE = Work(512, 0, repeats=1), Work(0, 32, depth=16, repeats=1)

Points = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines of tokens a second over something, by engine."""

    title: str
    x: str
    lines: Mapping[str, Points]


def draw(engines: Engines, folder: Path) -> str:
    """Measure and return the picture."""
    once = replace(engines, rounds=1)
    panels = [*_by_size(once, folder), *_by_threads(once, folder), *_by_context(once, folder)]
    panels += _by_batch(once, folder)
    rows = -(-len(panels) // 2)
    body = "".join(
        f'<g transform="translate({_WIDTH * (index % 2)},{_HEIGHT * (index // 2)})">{_panel(panel)}</g>'
        for index, panel in enumerate(panels)
    )
    size = f'width="{2 * _WIDTH}" height="{rows * _HEIGHT}"'
    style = 'font-family="sans-serif" font-size="11"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{_background()}{body}</svg>\n'


def _background() -> str:
    return '<rect width="100%" height="100%" fill="white"/>'


def _long(folder: Path) -> Iterator[Path]:
    if (path := cases.find(cases.LONG, folder)) is not None:
        yield path


def _by_size(engines: Engines, folder: Path) -> Iterator[Panel]:
    found = [path for case in (*cases.MAIN, *cases.LARGER) if (path := cases.find(case, folder))]
    found.sort(key=lambda path: path.stat().st_size)
    sizes = [path.stat().st_size / 1e6 for path in found]
    for title, work, name in (
        ("prefill of 512", _PREFILL, "prefill_tok_s"),
        ("decode", _DECODE, "decode_tok_s"),
    ):
        yield Panel(
            title, "MB of the file", _lines(sizes, [engines.compare(path, work) for path in found], name)
        )


def _by_threads(engines: Engines, folder: Path) -> Iterator[Panel]:
    counts = range(1, engines.threads + 1)
    for path in _long(folder):
        for title, work, name in (
            ("prefill", _PREFILL, "prefill_tok_s"),
            ("decode", _DECODE, "decode_tok_s"),
        ):
            results = [replace(engines, threads=count).compare(path, work) for count in counts]
            yield Panel(f"{title}, {cases.LONG.name}", "threads", _lines(list(counts), results, name))


def _by_context(engines: Engines, folder: Path) -> Iterator[Panel]:
    for path in _long(folder):
        results = [engines.compare(path, replace(_DECODE, depth=max(depth, 16))) for depth in _DEPTHS]
        yield Panel(
            f"decode, {cases.LONG.name}", "tokens in the cache", _lines(_DEPTHS, results, "decode_tok_s")
        )


def _by_batch(engines: Engines, folder: Path) -> Iterator[Panel]:
    alone = replace(engines, python=None)
    for path in _long(folder):
        results = [alone.compare(path, replace(_DECODE, sequences=count)) for count in _BATCHES]
        yield Panel(f"decode, {cases.LONG.name}", "sequences", _lines(_BATCHES, results, "decode_tok_s"))


def _lines(xs: Sequence[float], results: Sequence[tuple[Figures, Figures]], name: str) -> dict[str, Points]:
    lines: dict[str, Points] = {"rase": [], "llama.cpp": []}
    for x, pair in zip(xs, results, strict=True):
        for engine, figures in zip(lines, pair, strict=True):
            if name in figures:
                lines[engine].append((x, figures[name]))
    return {engine: points for engine, points in lines.items() if points}


def _panel(panel: Panel) -> str:
    every = [point for points in panel.lines.values() for point in points]
    most_x, most_y = max(x for x, _ in every), max(y for _, y in every) * 1.1
    right, bottom = _WIDTH - 16, _HEIGHT - _MARGIN
    parts = [
        _text(_MARGIN, 18, f"{panel.title}, tok/s", "start"),
        _text((right + _MARGIN) / 2, _HEIGHT - 10, panel.x, "middle"),
        f'<path d="M{_MARGIN} 28V{bottom}H{right}" fill="none" stroke="#555"/>',
        _text(_MARGIN - 4, 34, f"{most_y:.0f}", "end"),
        _text(_MARGIN - 4, bottom, "0", "end"),
    ]

    def place(point: tuple[float, float]) -> tuple[float, float]:
        x, y = point
        return _MARGIN + (right - _MARGIN) * x / most_x, bottom - (bottom - 28) * y / most_y

    for x in sorted({x for x, _ in every}):
        parts.append(_text(place((x, 0))[0], bottom + 14, f"{x:.0f}", "middle"))
    for index, (engine, points) in enumerate(panel.lines.items()):
        colour = _COLOURS[engine]
        places = [place(point) for point in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        parts.append(_text(right, 18 + 13 * index, engine, "end", colour))
    return "".join(parts)


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#222") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{text}</text>'
