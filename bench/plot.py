#!/usr/bin/env python3
"""Draws what bench/run-mpi has measured: how many times faster than the better MPI, by size.

    bench/plot.py build/bench/mpi.json build/bench/mpi.svg

One panel for each group of collectives and number of ranks. Written by hand, so that no library
is needed.
"""
import json
import math
import sys

GROUPS = [("all ranks to all", ["allgather", "alltoall", "sendrecv"]),
          ("from and to a root", ["bcast", "gather", "scatter", "reduce"]),
          ("combining", ["allreduce", "reduce_scatter"]),
          ("prefixes, barrier", ["scan", "exscan", "barrier"])]
COLORS = ["#0060a8", "#c04000", "#2a8a2a", "#8030a0"]
WIDTH, HEIGHT, LEFT, TOP, GAP = 300, 220, 50, 60, 56
FLOOR, CEILING = 0.25, 32.0  # ratios outside are drawn at the edge
SIZES = (8, 4 << 20)


def best_ratios(rows):
    """{(ranks, name, memory): [(bytes, ratio against the better MPI)]}"""
    least = {}
    for row in rows:
        if row["peer"] != "floor":
            key = (row["ranks"], row["name"], row["memory"], row["bytes"])
            least[key] = min(least.get(key, math.inf), row["ratio"])
    lines = {}
    for (ranks, name, memory, nbytes), ratio in sorted(least.items()):
        lines.setdefault((ranks, name, memory), []).append((nbytes, ratio))
    return lines


def x_of(nbytes):
    low, high = map(math.log2, SIZES)
    return WIDTH * min(1, max(0, (math.log2(max(nbytes, SIZES[0])) - low) / (high - low)))


def y_of(ratio):
    low, high = math.log2(FLOOR), math.log2(CEILING)
    at = (math.log2(min(CEILING, max(FLOOR, ratio))) - low) / (high - low)
    return HEIGHT * (1 - at)


def text(x, y, words, anchor="middle", color="#333"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}">{words}</text>'


def line(points, color, extra=""):
    at = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{at}" fill="none" stroke="{color}" {extra}/>'


def grid():
    out = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff" stroke="#999"/>']
    for shift, label in ((3, "8"), (6, "64"), (9, "512"), (12, "4K"), (15, "32K"), (18, "256K"),
                         (20, "1M"), (22, "4M")):
        x = x_of(1 << shift)
        out += [line([(x, 0), (x, HEIGHT)], "#e4e4e4"), text(x, HEIGHT + 14, label)]
    ratio = FLOOR
    while ratio <= CEILING:
        y = y_of(ratio)
        out += [line([(0, y), (WIDTH, y)], "#333" if ratio == 1 else "#e4e4e4"),
                text(-6, y + 4, f"{ratio:g}", "end")]
        ratio *= 2
    return out


def wanted_steps(ranks, memory, wanted):
    points = []
    steps = [8 * 2 ** (i / 8) for i in range(8 * 19 + 1)]
    for nbytes in steps:
        points.append((x_of(nbytes), y_of(wanted(ranks, nbytes, memory))))
    return points


def panel(ranks, title, names, lines, wanted):
    out = grid()
    out.append(text(WIDTH / 2, -24, f"{title}, {ranks} ranks"))
    for memory, extra in (("malloc", ""), ("pool", 'stroke-dasharray="5 3"')):
        out.append(line(wanted_steps(ranks, memory, wanted), "#bbb", extra + ' stroke-width="3"'))
    legend_x = 0
    for name, color in zip(names, COLORS):
        if not any((ranks, name, memory) in lines for memory in ("malloc", "pool")):
            continue
        out.append(text(legend_x, -7, name, "start", color))
        legend_x += 9 + 6.5 * len(name)
        for memory, extra in (("malloc", ""), ("pool", 'stroke-dasharray="5 3"')):
            points = [(x_of(n), y_of(r)) for n, r in lines.get((ranks, name, memory), [])]
            out.append(line(points, color, extra + ' stroke-width="1.6"'))
            out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" fill="{color}"/>'
                    for x, y in points]
    return out


def svg(rows, wanted):
    """wanted(ranks, bytes, memory): the ratio that is drawn as the grey line."""
    lines = best_ratios(rows)
    all_ranks = sorted({ranks for ranks, _, _ in lines})
    across, down = len(GROUPS), max(1, len(all_ranks))
    full = (LEFT + across * (WIDTH + GAP), TOP + down * (HEIGHT + TOP + 20))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{full[0]}" height="{full[1]}" '
           'font-family="sans-serif" font-size="11">',
           f'<rect width="{full[0]}" height="{full[1]}" fill="#fff"/>',
           text(LEFT, 20, "How many times faster than the better of Open MPI and MPICH, by bytes. "
                "Solid: malloc; dashed: pool; grey: wanted.", "start")]
    for row, ranks in enumerate(all_ranks):
        for column, (title, names) in enumerate(GROUPS):
            x, y = LEFT + column * (WIDTH + GAP), TOP + 20 + row * (HEIGHT + TOP + 20)
            out.append(f'<g transform="translate({x},{y})">')
            out += panel(ranks, title, names, lines, wanted)
            out.append("</g>")
    return "\n".join(out + ["</svg>"]) + "\n"


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as source:
        picture = svg(json.load(source), lambda ranks, nbytes, memory: 1.0)
    with open(sys.argv[2], "w", encoding="utf-8") as target:
        target.write(picture)
